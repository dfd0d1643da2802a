import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from './root.mjs';

/** More failed suites than this are no matter of a busy machine. */
const MOST_RUN_ALONE = 8;

/**
 * Runs Jest and prints what was skipped, then "N passed, N failed" as the last line. Answers the exit code. `report` names
 * the file Jest writes, in .codedock; `skipped` are reasons known beforehand.
 *
 * Suites of whole systems share two cores with each other. A few that fail are run once more, alone; one that passes
 * then is named as unsteady, with what failed, and counts by its second run.
 */
export async function runJest(args, { report: name, skipped = [] }) {
  const report = join(root, '.codedock', name);
  mkdirSync(join(root, '.codedock'), { recursive: true });

  let outcome = await runOnce(report, args);
  const first = outcome.suites.filter(({ status }) => status === 'failed');
  if (first.length > 0 && first.length <= MOST_RUN_ALONE) {
    for (const suite of first) console.error(`once more, alone: ${relative(root, suite.name)}`);
    const again = await runOnce(report, [
      ...options(args),
      '--runInBand',
      '--runTestsByPath',
      ...first.map((suite) => suite.name),
    ]);
    const rerun = new Set(again.suites.map((suite) => suite.name));
    for (const suite of again.suites.filter(({ status }) => status !== 'failed')) {
      const failed = first.find((each) => each.name === suite.name);
      for (const test of failed?.assertionResults.filter(({ status }) => status === 'failed') ?? []) {
        console.log(`unsteady: ${relative(root, suite.name)}: ${test.fullName}`);
      }
    }
    outcome = {
      code: again.code,
      suites: [...outcome.suites.filter((suite) => !rerun.has(suite.name)), ...again.suites],
    };
  }

  if (outcome.suites.length === 0) {
    console.error('Jest wrote no report: it ended before the suites were run.');
    console.log('0 passed, 1 failed');
    return 1;
  }
  const tests = outcome.suites.flatMap((suite) => suite.assertionResults);
  // A suite that could not even be loaded counts as one failure.
  const unloaded = outcome.suites.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  const failed = count(tests, 'failed') + unloaded.length;
  for (const line of skipped) console.log(`skipped: ${line}`);
  for (const test of tests.filter(({ status }) => status === 'pending')) console.log(`skipped: ${test.fullName}`);
  console.log(`${count(tests, 'passed')} passed, ${failed} failed`);
  return failed > 0 || outcome.code !== 0 ? 1 : 0;
}

async function runOnce(report, args) {
  rmSync(report, { force: true });
  const jest = spawn(
    process.execPath,
    [join(root, 'node_modules/jest/bin/jest.js'), '--ci', '--json', `--outputFile=${report}`, ...args],
    // Jest's own JSON on stdout is in the report file already.
    { cwd: root, stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, NODE_NO_WARNINGS: '1' } },
  );
  const code = await new Promise((resolve) => jest.on('close', (exit, signal) => resolve(signal ? 1 : exit)));
  try {
    return { code, suites: JSON.parse(readFileSync(report, 'utf8')).testResults };
  } catch {
    return { code, suites: [] };
  }
}

// Paths and patterns of the first run do not select the second one's suites.
function options(args) {
  return ['--config', '--selectProjects'].flatMap((name) => {
    const at = args.indexOf(name);
    return at === -1 ? [] : [name, args[at + 1]];
  });
}

function count(tests, status) {
  return tests.filter((test) => test.status === status).length;
}
