// The runner that ships, with a hook of its own process that judges replies: `afterModelCall` has no port, so that no plugin
// stands there. It says which run it judges and waits until the suite lets it go on.
import 'reflect-metadata';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { textOf } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { createLogger, Shutdown, startTelemetry } from '@codedock/platform';
import { readRunnerConfig, startRunner } from '@codedock/runner';

/** Withholds what is secret; ends a run whose reply is forbidden. `folder`: a file named as a run lets its judge go on. */
const judging = (folder: string): Hooks => ({
  afterModelCall: async ({ message }, { site: { runId }, signal }) => {
    process.stdout.write(`judging ${runId}\n`);
    while (!existsSync(path.join(folder, String(runId)))) await delay(20, undefined, { signal });
    const text = textOf(message);
    const judged = { ...message, content: { text: text.replaceAll(/secret|forbidden/g, '[withheld]') } };
    if (text.includes('forbidden')) return { kind: 'stop', reason: 'not to be said', message: judged };
    return { kind: 'continue', message: judged };
  },
});

async function main(): Promise<void> {
  const folder = process.env['JUDGED_RUNS'];
  if (folder === undefined) throw new Error('JUDGED_RUNS is to name a folder');
  const config = readRunnerConfig();
  const logger = createLogger({ app: 'runner', level: config.logLevel, format: config.logFormat });
  const telemetry = startTelemetry({ service: 'codedock-runner', version: '0.1.0', logger });
  const shutdown = new Shutdown({ logger, deadlineMs: config.runnerDrainTimeoutMs + 10_000 });
  shutdown.register('telemetry', () => telemetry.shutdown());
  shutdown.listen();
  await startRunner({ config, logger, telemetry, shutdown, hooks: judging(folder) });
}

main().catch((error: unknown) => {
  process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
