import { cp, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { root } from '../workspace/root.mjs';

const RUNTIME_FILES = (name) => [name, 'plugin.json'];

/**
 * The root that the plugin-host loads: the one the user named, else a folder with what `plugin/` ships and, for the
 * demonstration, the policy it shows. Copies hold the executable and its plugin.json, not the author's sources.
 */
export async function pluginRoot(folder, { demonstration }) {
  const named = process.env.CODEDOCK_PLUGIN_DIR ?? process.env.PLUGIN_DIR;
  if (named) return resolve(named);
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
