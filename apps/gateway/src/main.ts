import { isAppError } from '@codedock/domain';
import { createLogger, readConfig, Shutdown, startTelemetry, watchParent } from '@codedock/platform';

async function main(): Promise<void> {
  const config = readConfig('gateway');
  const logger = createLogger({ app: 'gateway', level: config.logLevel, format: config.logFormat });
  const telemetry = startTelemetry({ service: 'codedock-gateway', version: '0.1.0', logger });
  const shutdown = new Shutdown({ logger });
  shutdown.register('telemetry', () => telemetry.shutdown());
  shutdown.listen();
  if (config.exitWithParent) watchParent(() => void shutdown.runAndExit('the parent process is gone'));
  try {
    // Loaded after telemetry has begun, which instruments what is loaded from then on.
    const { serveGateway } = await import('./serve.js');
    await serveGateway({ config, logger, telemetry, shutdown });
  } catch (error) {
    process.stderr.write(`gateway: ${shown(error)}\n`);
    await shutdown.run('the start failed');
    process.exit(1);
  }
}

function shown(error: unknown): string {
  if (isAppError(error)) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

main().catch((error: unknown) => {
  process.stderr.write(`gateway: ${shown(error)}\n`);
  process.exit(1);
});
