import { cp, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { root } from '../workspace/root.mjs';

const RUNTIME_FILES = (name) => [name, 'plugin.json'];

/**
 * The roots that the plugin-host loads, as its variable wants them: those the user named (else what is shipped), then
 * `~/.codedock/plugins` and `.codedock/plugins` of the folder the command was given in, where they exist, then `plugins`
 * of the data folder, for plugins that are being written. A plugin of a later root replaces one with the same name.
 */
export async function pluginRoots(folder, { demonstration }) {
  const named = (process.env.CODEDOCK_PLUGIN_DIR ?? process.env.PLUGIN_DIR ?? '').split(':').filter(Boolean);
  const first = named.length > 0 ? named.map((root) => resolve(root)) : [await shippedRoot(folder, { demonstration })];
  const own = [homedir(), process.env.INIT_CWD ?? process.cwd()].map((base) => join(base, '.codedock', 'plugins'));
  const roots = [...first];
  // Always there, so that `codedock plugin dev` needs no restart.
  const written = join(folder, 'plugins');
  await mkdir(written, { recursive: true, mode: 0o755 });
  for (const root of [...own, written]) {
    const found = await stat(root).catch(() => undefined);
    if (found?.isDirectory() && !roots.includes(root)) roots.push(root);
  }
  return roots.join(':');
}

/**
 * A folder with what `plugin/` ships and, for the demonstration, the policy it shows. Copies hold the executable and its
 * plugin.json, not the author's sources.
 */
async function shippedRoot(folder, { demonstration }) {
  const target = join(folder, 'plugin-root');
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { mode: 0o755 });
  const shipped = (await readdir(join(root, 'plugin'), { withFileTypes: true })).filter((entry) => entry.isDirectory());
  for (const { name } of shipped) await install(join(root, 'plugin', name), name, target);
  if (demonstration) await install(join(root, 'examples', 'policy-demo'), 'policy-demo', target);
  return target;
}

async function install(source, name, target) {
  const built = await stat(join(source, name)).catch(() => undefined);
  if (!built?.isFile()) return;
  await mkdir(join(target, name), { mode: 0o755 });
  for (const file of RUNTIME_FILES(name)) {
    await cp(join(source, file), join(target, name, file)).catch((error) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}
