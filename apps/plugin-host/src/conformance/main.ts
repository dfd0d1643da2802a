import { parseArgs } from 'node:util';
import { environment } from './config.js';
import { lineOf, summaryOf } from './report.js';
import { checkConformance } from './run.js';

const usage = `Usage: codedock-plugin-conformance [options] <folder>...

Starts the plugin of each folder as a plugin-host does and checks that it keeps to the protocol.
Exit code 0: all checks passed, 1: some failed, 2: wrong arguments.

  --json               print one JSON document instead of a table
  --failures           print only what failed and the sums
  --timeout <ms>       time for one question, in place of plugin.json's timeoutMs or budgetMs (default 2000)
  --start-timeout <ms> time to come up (default 10000)
  --help               print this
`;

const defaultStartTimeoutMs = 10_000;

async function main(): Promise<number> {
  const { values, positionals: folders } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'boolean', default: false },
      failures: { type: 'boolean', default: false },
      timeout: { type: 'string' },
      'start-timeout': { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return 0;
  }
  if (folders.length === 0) throw new TypeError('no folder was given');
  const timeoutMs = milliseconds('--timeout', values.timeout);
  const options = {
    environment,
    startTimeoutMs: milliseconds('--start-timeout', values['start-timeout']) ?? defaultStartTimeoutMs,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
  const print = (text: string) => {
    if (!values.json) process.stdout.write(`${text}\n`);
  };
  const reports = [];
  for (const folder of folders) {
    const report = await checkConformance(folder, options, (result) => {
      if (!values.failures || result.outcome === 'failed') print(lineOf(result));
    });
    print(summaryOf(report));
    reports.push(report);
  }
  if (values.json) process.stdout.write(`${JSON.stringify(folders.length === 1 ? reports[0] : reports, null, 2)}\n`);
  return reports.some(({ failed }) => failed > 0) ? 1 : 0;
}

function milliseconds(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new TypeError(`${option} must be a number of milliseconds, at least 1`);
  return Number(text);
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: Error) => {
    const isUsage = error instanceof TypeError;
    process.stderr.write(isUsage ? `${error.message}\n\n${usage}` : `${error.stack}\n`);
    process.exitCode = isUsage ? 2 : 1;
  },
);
