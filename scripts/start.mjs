#!/usr/bin/env node
// Brings a fresh clone to a running system: dependencies, build, database, three services, one demonstration run.
// Only node:* modules are imported before the dependencies are known to be there.
import { prepare } from './workspace/prepare.mjs';

const args = new Set(process.argv.slice(2));
const known = new Set(['--once', '--no-demo', '--traces', '--help']);
const unknown = [...args].filter((arg) => !known.has(arg));
if (unknown.length > 0 || args.has('--help')) {
  const usage = [
    'npm start [-- options]',
    '  --once     exit after the demonstration run: 0 when every step happened, 1 when one did not',
    '  --no-demo  start the services without the demonstration run',
    '  --traces   keep the traces of every process here; codedock runs trace <run> --spans shows them',
  ].join('\n');
  if (unknown.length > 0) {
    console.error(`Unknown option ${unknown.join(', ')}.\n${usage}`);
    process.exit(2);
  }
  console.log(usage);
  process.exit(0);
}

try {
  await prepare();
  const { start } = await import('./start/start.mjs');
  process.exitCode = await start({
    once: args.has('--once'),
    demonstration: !args.has('--no-demo'),
    traces: args.has('--traces'),
  });
} catch (error) {
  console.error(`\nCodeDock did not start: ${error.message}`);
  if (process.env.CODEDOCK_LOG_LEVEL === 'debug') console.error(error);
  process.exitCode = 1;
}
