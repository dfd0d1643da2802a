#!/usr/bin/env node
// A benchmark by name, from a fresh clone: dependencies, build, then the measurement. Its table goes to stdout; with
// --json the last line is one JSON value; --quick measures less.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { prepare } from './workspace/prepare.mjs';
import { root } from './workspace/root.mjs';

const BENCHES = ['gates', 'runs', 'telemetry'];

const [name, ...options] = process.argv.slice(2);
if (!BENCHES.includes(name)) {
  console.error(`There is no benchmark "${name ?? ''}". Give one of: ${BENCHES.join(', ')}.`);
  process.exit(2);
}
await prepare();
const bench = spawn(process.execPath, [join(root, 'tests/dist/bench', `${name}.js`), ...options], {
  cwd: root,
  stdio: 'inherit',
});
bench.on('close', (code, signal) => {
  process.exitCode = signal ? 1 : code;
});
