#!/usr/bin/env node
// The fault suite, from a fresh clone: dependencies, build, then the suite. Its last line is one JSON value.
//   --tier=short|long   --profile=embedded|redis   --only=R1,R2   --seed=n   --runs=n (of the flood L1)
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { prepare } from './workspace/prepare.mjs';
import { root } from './workspace/root.mjs';

await prepare();
const suite = spawn(process.execPath, [join(root, 'tests/dist/faults/faults.js'), ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
});
suite.on('close', (code, signal) => {
  process.exitCode = signal ? 1 : code;
});
