#!/usr/bin/env node
// The suites that put peers in other languages to CodeDock: dependencies, build, the peers' builds, then Jest. Arguments
// go to Jest; the last line is "N passed, N failed". Peers whose toolchain is absent are skipped, or, with
// REQUIRE_INTEROP=1, failures.
import { join } from 'node:path';
import { prepare } from '../../scripts/workspace/prepare.mjs';
import { root } from '../../scripts/workspace/root.mjs';
import { runJest } from '../../scripts/workspace/run-jest.mjs';
import { buildPeers } from './build.mjs';

await prepare();
console.log('codedock  building the peers in Go and Python (the first time takes minutes) …');
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
const config = join(root, 'tests/interop/jest.config.cjs');
process.exitCode = await runJest(['--config', config, ...process.argv.slice(2)], {
  report: 'interop-report.json',
  skipped: absent,
});
