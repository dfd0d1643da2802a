#!/usr/bin/env node
// Every test suite, set-up included: dependencies, build, then Jest. The last line is "N passed, N failed".
import { executableOnPath } from './workspace/on-path.mjs';
import { prepare } from './workspace/prepare.mjs';
import { runJest } from './workspace/run-jest.mjs';

await prepare();

const skipped = [];
if (!process.env.REDIS_URL && !executableOnPath('redis-server')) {
  skipped.push('the queue, bus and end-to-end suites on Redis: no redis-server on PATH and REDIS_URL is not set');
}
if (!executableOnPath('prometheus')) {
  skipped.push('the alerts on staged faults: no prometheus on PATH (apt-get install prometheus)');
}
process.exitCode = await runJest(process.argv.slice(2), { report: 'test-report.json', skipped });
