import 'reflect-metadata';
import { createLogger, Shutdown, startTelemetry, watchParent } from '@codedock/platform';
import { readRunnerConfig } from './config.js';

/** Milliseconds beside the drain for closing connections. */
const CLOSING_MS = 10_000;

async function main(): Promise<void> {
  const config = readRunnerConfig();
  const logger = createLogger({ app: 'runner', level: config.logLevel, format: config.logFormat });
  const telemetry = startTelemetry({ service: 'codedock-runner', version: '0.1.0', logger });
  const shutdown = new Shutdown({ logger, deadlineMs: config.runnerDrainTimeoutMs + CLOSING_MS });
  shutdown.register('telemetry', () => telemetry.shutdown());
  shutdown.listen();
  if (config.exitWithParent) watchParent(() => void shutdown.runAndExit('the parent process is gone'));
  // Loaded only now, so that telemetry instruments what it loads.
  const { startRunner } = await import('./runner.js');
  await startRunner({ config, logger, telemetry, shutdown });
}

main().catch((error: unknown) => {
  process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
