import type { App } from '@codedock/platform';
import { Command } from 'commander';
import { config, environment } from '../config.js';
import { print, table } from '../output.js';
import { about, type Finding } from './finding.js';

const APPS = ['gateway', 'runner', 'plugin-host'] as const satisfies readonly App[];

/** `codedock doctor`: looks at a whole installation and says what is wrong, where, and what to do. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('check a running installation: what is wrong, where, and the remedy. Exit code 1 when something is')
    .option('--app <name>', `judge the environment as this service would: ${APPS.join(', ')}`)
    .addHelpText(
      'after',
      '\nRun it in the environment of a service (its variables and certificates), or in the folder of a running\n`npm start`. Plugins are looked at with CODEDOCK_API_KEY, a key with the scope admin.',
    )
    .action(async (options: { app?: string }, command: Command) => {
      const app = APPS.find((known) => known === options.app);
      if (options.app !== undefined && app === undefined) {
        throw new Error(`--app does not know "${options.app}"; it takes ${APPS.join(', ')}.`);
      }
      const findings = await examine(command.optsWithGlobals<{ url: string }>().url.replace(/\/+$/, ''), app);
      const ok = !findings.some(({ state }) => state === 'failed');
      print(command, { ok, findings }, () => report(findings));
      if (!ok) process.exitCode = 1;
    });
}

async function examine(url: string, app: App | undefined): Promise<Finding[]> {
  // Loaded only here: the other commands need neither database nor queue.
  const { checkCertificates, checkConfiguration } = await import('./check-configuration.js');
  const { checkDatabase, checkQueue } = await import('./check-database.js');
  const { checkGateway } = await import('./check-gateway.js');
  const databaseUrl = await config.databaseUrl().catch(() => undefined);
  const known = databaseUrl === undefined ? environment : { ...environment, DATABASE_URL: databaseUrl };
  const queueUrl = environment['QUEUE_URL'] || databaseUrl;
  const skipped = (check: string, variable: string) => [
    about(check, variable).skipped('not set here', `Set ${variable} as the services have it.`),
  ];
  return [
    ...checkConfiguration(app === undefined ? (databaseUrl === undefined ? [] : ['gateway', 'runner']) : [app], known),
    ...checkCertificates(environment, Date.now()),
    ...(databaseUrl === undefined ? skipped('database', 'DATABASE_URL') : await checkDatabase(databaseUrl)),
    ...(queueUrl === undefined ? skipped('queue', 'QUEUE_URL') : await checkQueue(queueUrl)),
    ...(await checkGateway(url, config.knownApiKey(url))),
  ];
}

function report(findings: readonly Finding[]): string {
  const failed = findings.filter(({ state }) => state === 'failed').length;
  const rows = findings.map(({ state, check, where, detail, remedy }) => [
    state,
    check,
    where,
    remedy === undefined ? detail : `${detail} → ${remedy}`,
  ]);
  const end = failed === 0 ? 'nothing is wrong' : `${failed} of ${findings.length} checks failed`;
  return `${table(['state', 'check', 'where', 'what'], rows)}\n\n${end}`;
}
