// The runner of the fault suite: the parts of the program that ships, with places laid around them where a run's metadata
// lets the process die or stall. Nothing that ships knows of this file, and no variable leads to it.
import 'reflect-metadata';
import { createLogger, Shutdown, startTelemetry } from '@codedock/platform';
import { readRunnerConfig, startRunner } from '@codedock/runner';
import { crashingRunner, dieOnce } from './crash-points.js';
import { tellingLeases } from './told-leases.js';

async function main(): Promise<void> {
  const die = dieOnce(process.env['FAULTS_DEATHS'] ?? '/dev/null');
  const config = readRunnerConfig();
  const logger = createLogger({ app: 'runner', level: config.logLevel, format: config.logFormat });
  const telemetry = startTelemetry({ service: 'codedock-runner', version: '0.1.0', logger });
  const shutdown = new Shutdown({ logger, deadlineMs: config.runnerDrainTimeoutMs + 10_000 });
  shutdown.register('telemetry', () => telemetry.shutdown());
  shutdown.listen();
  await startRunner({
    config,
    logger,
    telemetry,
    shutdown,
    around: (parts) => crashingRunner(tellingLeases(parts), die),
  });
}

main().catch((error: unknown) => {
  process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
