/**
 * Fails when a committed generated file is stale: runs the script `gen:check` of the root's packages, wherever one
 * is defined. Such a script regenerates in memory or in a temporary folder and compares; it never writes.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const { workspaces } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const folders = workspaces.flatMap((pattern) =>
  pattern.endsWith('/*')
    ? readdirSync(join(root, pattern.slice(0, -2))).map((name) => join(pattern.slice(0, -2), name))
    : [pattern],
);

const stale = [];
let checked = 0;
for (const folder of folders) {
  const manifest = join(root, folder, 'package.json');
  if (!existsSync(manifest)) continue;
  const { scripts = {} } = JSON.parse(readFileSync(manifest, 'utf8'));
  if (!scripts['gen:check']) continue;
  checked += 1;
  const { status } = spawnSync('npm', ['run', '--silent', 'gen:check'], {
    cwd: join(root, folder),
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  if (status !== 0) stale.push(folder);
}

if (stale.length > 0) {
  console.error(`Generated files are stale in ${stale.join(', ')}. Run \`npm run gen\` and commit the result.`);
}
console.log(`generated: ${checked} packages checked, ${stale.length} stale`);
process.exitCode = stale.length === 0 ? 0 : 1;
