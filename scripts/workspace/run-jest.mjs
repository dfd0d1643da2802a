import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './root.mjs';

/**
 * Runs Jest and prints what was skipped, then "N passed, N failed" as the last line. Answers the exit code. `report` names
 * the file Jest writes, in .codedock; `skipped` are reasons known beforehand.
 */
export async function runJest(args, { report: name, skipped = [] }) {
  const report = join(root, '.codedock', name);
  mkdirSync(join(root, '.codedock'), { recursive: true });
  rmSync(report, { force: true });

  const jest = spawn(
    process.execPath,
    [join(root, 'node_modules/jest/bin/jest.js'), '--ci', '--json', `--outputFile=${report}`, ...args],
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
    return 1;
  }
  // A suite that could not even be loaded counts as one failure.
  const failed = totals.numFailedTests + totals.numRuntimeErrorTestSuites;
  for (const line of skipped) console.log(`skipped: ${line}`);
  for (const test of pendingTests(totals)) console.log(`skipped: ${test}`);
  console.log(`${totals.numPassedTests} passed, ${failed} failed`);
  return failed > 0 || code !== 0 ? 1 : 0;
}

function pendingTests(results) {
  return results.testResults.flatMap((suite) =>
    suite.assertionResults.filter((test) => test.status === 'pending').map((test) => test.fullName),
  );
}
