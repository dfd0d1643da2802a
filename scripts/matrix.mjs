#!/usr/bin/env node
// A suite of the plugin-host by name, from a fresh clone: dependencies, build, then the suite. Its last line is one JSON
// value; --quick does less.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { prepare } from './workspace/prepare.mjs';
import { root } from './workspace/root.mjs';

const SUITES = ['gates', 'reload', 'start'];

const [name, ...options] = process.argv.slice(2);
if (!SUITES.includes(name)) {
  console.error(`There is no suite "${name ?? ''}". Give one of: ${SUITES.join(', ')}.`);
  process.exit(2);
}
await prepare();
const suite = spawn(process.execPath, [join(root, 'tests/dist/matrix', `${name}.js`), ...options], {
  cwd: root,
  stdio: 'inherit',
});
suite.on('close', (code, signal) => {
  process.exitCode = signal ? 1 : code;
});
