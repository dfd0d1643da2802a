// Lays plugins out for the plugin-host: copies each into a folder of mode 0755 that nobody else writes to, and lays the
// configured fields over its plugin.json. Reads plan.json beside it, or the file named as argument.
import { chmod, cp, lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const planFile = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), 'plan.json');
const { plugins, volume, manifests, into } = JSON.parse(await readFile(planFile, 'utf8'));

const sources = new Map();
if (volume) {
  for (const entry of await readdir(volume, { withFileTypes: true })) {
    if (entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'lost+found') {
      sources.set(entry.name, join(volume, entry.name));
    }
  }
}
for (const { name, from } of plugins) sources.set(name, from);

const strangers = Object.keys(manifests).filter((name) => !sources.has(name));
if (strangers.length > 0) {
  throw new Error(`plugins.manifests names ${strangers.join(', ')}, but there is no such plugin; there are: ${[...sources.keys()].join(', ') || 'none'}`);
}

// A container that is started again finds what it has left.
await rm(into, { recursive: true, force: true });
await mkdir(into, { recursive: true });
await chmod(into, 0o755);
for (const [name, from] of sources) {
  const target = join(into, name);
  await cp(from, target, { recursive: true, verbatimSymlinks: true });
  const manifest = manifests[name];
  if (manifest !== undefined) {
    const file = join(target, 'plugin.json');
    const own = await readFile(file, 'utf8').then(JSON.parse, (error) => {
      if (error.code === 'ENOENT') return {};
      throw new Error(`${name}: its plugin.json cannot be read: ${error.message}`);
    });
    await rm(file, { force: true });
    await writeFile(file, `${JSON.stringify({ ...own, ...manifest }, null, 2)}\n`);
  }
  await tighten(target);
  console.log(`plugin ${name} from ${from}`);
}

async function tighten(path) {
  const entry = await lstat(path);
  if (entry.isSymbolicLink()) return;
  await chmod(path, entry.mode & 0o755);
  if (entry.isDirectory()) for (const name of await readdir(path)) await tighten(join(path, name));
}
