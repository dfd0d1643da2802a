// The gateway of the fault suite: the program that ships, with a place laid around its store where a run's metadata lets
// the process die. Nothing that ships knows of this file, and no variable leads to it.
import { serveGateway } from '@codedock/gateway';
import { createLogger, readConfig, Shutdown, startTelemetry } from '@codedock/platform';
import { crashingGateway, dieOnce } from './crash-points.js';

async function main(): Promise<void> {
  const die = dieOnce(process.env['FAULTS_DEATHS'] ?? '/dev/null');
  const config = readConfig('gateway');
  const logger = createLogger({ app: 'gateway', level: config.logLevel, format: config.logFormat });
  const telemetry = startTelemetry({ service: 'codedock-gateway', version: '0.1.0', logger });
  const shutdown = new Shutdown({ logger });
  shutdown.register('telemetry', () => telemetry.shutdown());
  shutdown.listen();
  await serveGateway({ config, logger, telemetry, shutdown, around: (parts) => crashingGateway(parts, die) });
}

main().catch((error: unknown) => {
  process.stderr.write(`gateway: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
