#!/usr/bin/env node
// Rolls two plugin-hosts under load, again and again: `--times=n` (default 3). Apart from `npm test`, because it takes
// minutes and says more the more often it is run. The last line is "N passed, N failed".
import { parseArgs } from 'node:util';
import { prepare } from './workspace/prepare.mjs';
import { runJest } from './workspace/run-jest.mjs';

const { values } = parseArgs({ options: { times: { type: 'string', default: '3' } } });
await prepare();
process.env.TEST_ROLLING = '1';
let failures = 0;
for (let time = 1; time <= Number(values.times); time += 1) {
  const args = ['--selectProjects', 'services', '--testPathPatterns', 'tests/src/resilience/rolling'];
  failures += (await runJest(args, { report: 'rolling-report.json' })) === 0 ? 0 : 1;
}
console.log(`${Number(values.times) - failures} passed, ${failures} failed`);
process.exitCode = failures === 0 ? 0 : 1;
