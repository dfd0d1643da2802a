// Runs Nx without its daemon, its cloud and its terminal UI, the same on every machine.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const nx = createRequire(import.meta.url).resolve('nx/bin/nx.js');
const { status } = spawnSync(process.execPath, [nx, ...process.argv.slice(2)], {
  cwd: fileURLToPath(new URL('..', import.meta.url)),
  stdio: 'inherit',
  env: { ...process.env, NX_DAEMON: 'false', NX_NO_CLOUD: 'true', NX_TUI: 'false' },
});
process.exitCode = status ?? 1;
