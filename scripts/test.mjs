#!/usr/bin/env node
// Every test suite, set-up included: dependencies, build, then Jest. The last line is "N passed, N failed".
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { executableOnPath } from './workspace/on-path.mjs';
import { prepare } from './workspace/prepare.mjs';
import { root } from './workspace/root.mjs';

const passedOn = process.argv.slice(2);
await prepare();

const skipped = [];
if (!process.env.REDIS_URL && !executableOnPath('redis-server')) {
  skipped.push('the queue, bus and end-to-end suites on Redis: no redis-server on PATH and REDIS_URL is not set');
}

const report = join(root, '.codedock', 'test-report.json');
mkdirSync(join(root, '.codedock'), { recursive: true });
rmSync(report, { force: true });

const jest = spawn(
  process.execPath,
  [join(root, 'node_modules/jest/bin/jest.js'), '--ci', '--json', `--outputFile=${report}`, ...passedOn],
  // Jest's own JSON on stdout is in the report file already.
  { cwd: root, stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, NODE_NO_WARNINGS: '1' } },
);
const code = await new Promise((resolve) => jest.on('close', (exit, signal) => resolve(signal ? 1 : exit)));

let totals;
try {
  totals = JSON.parse(readFileSync(report, 'utf8'));
} catch {
  console.error('Jest wrote no report: it ended before the suites were run.');
  console.log('0 passed, 1 failed');
  process.exit(1);
}
// A suite that could not even be loaded counts as one failure.
const failed = totals.numFailedTests + totals.numRuntimeErrorTestSuites;
for (const line of skipped) console.log(`skipped: ${line}`);
for (const test of pendingTests(totals)) console.log(`skipped: ${test}`);
console.log(`${totals.numPassedTests} passed, ${failed} failed`);
process.exitCode = failed > 0 || code !== 0 ? 1 : 0;

function pendingTests(results) {
  return results.testResults.flatMap((suite) =>
    suite.assertionResults.filter((test) => test.status === 'pending').map((test) => test.fullName),
  );
}
