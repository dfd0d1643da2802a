#!/usr/bin/env node
// The suites of the Helm chart: dependencies, build, helm, then Jest. Arguments go to Jest (`-u` takes new snapshots); the
// last line is "N passed, N failed".
import { join } from 'node:path';
import { prepare } from '../../scripts/workspace/prepare.mjs';
import { root } from '../../scripts/workspace/root.mjs';
import { runJest } from '../../scripts/workspace/run-jest.mjs';
import { helmProgram } from './helm.mjs';

await prepare();
try {
  process.env.HELM = await helmProgram();
} catch (error) {
  console.error(error.message);
  console.log('0 passed, 1 failed');
  process.exit(1);
}
const config = join(root, 'tests/chart/jest.config.cjs');
process.exitCode = await runJest(['--config', config, ...process.argv.slice(2)], { report: 'chart-report.json' });
