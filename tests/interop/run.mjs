#!/usr/bin/env node
// Builds the peers in other languages, then runs the suites that put them to CodeDock. Arguments go to Jest; the last
// line is "N passed, N failed". A peer whose toolchain is absent is skipped, or with REQUIRE_INTEROP=1 a failure.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { root } from '../../scripts/workspace/root.mjs';
import { buildPeers } from './build.mjs';

const absent = await buildPeers().catch((error) => {
  console.error(error.message);
  console.log('0 passed, 1 failed');
  process.exit(1);
});
if (absent.length > 0 && process.env.REQUIRE_INTEROP === '1') {
  for (const reason of absent) console.log(`absent: ${reason}`);
  console.log(`0 passed, ${absent.length} failed`);
  process.exit(1);
}
for (const reason of absent) console.log(`skipped: ${reason}`);

const config = join(root, 'tests/interop/jest.config.cjs');
const suites = spawn(process.execPath, [join(root, 'scripts/test.mjs'), '--config', config, ...process.argv.slice(2)], {
  cwd: root,
  stdio: ['ignore', 'inherit', 'inherit'],
});
suites.on('close', (code, signal) => {
  process.exitCode = signal === null ? code : 1;
});
