import { isAppError } from '@codedock/domain';
import {
  cannotListen,
  createLogger,
  Health,
  Shutdown,
  startOperationsServer,
  startTelemetry,
  watchParent,
} from '@codedock/platform';
import { hostEnvironment, readPluginHostConfig } from './config.js';

const drainDeadlineMs = 30_000;

async function main(): Promise<void> {
  const config = readPluginHostConfig(hostEnvironment);
  const logger = createLogger({ app: 'plugin-host', level: config.logLevel, format: config.logFormat });
  const telemetry = startTelemetry({ service: 'codedock-plugin-host', version: '0.1.0', logger });
  const shutdown = new Shutdown({ logger, deadlineMs: drainDeadlineMs });
  shutdown.listen();
  if (config.exitWithParent) watchParent(() => void shutdown.runAndExit('the starting process is gone'));
  shutdown.register('telemetry', () => telemetry.shutdown());
  // Loaded only now: telemetry instruments Nest and gRPC while they load.
  const { servePluginHost } = await import('./serve.js');
  const running = await servePluginHost(config, logger, hostEnvironment);
  shutdown.register('plugin-host', () => running.close());
  const health = new Health();
  health.addReadiness('plugins', () => running.host.snapshot().reason || true);
  const operations = await startOperationsServer({
    listen: config.healthListen,
    health,
    metrics: telemetry.metricsHandler,
  }).catch((error: unknown) => {
    throw cannotListen('CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN', config.healthListen, error);
  });
  shutdown.register('operations', () => operations.close());
  shutdown.begun.addEventListener('abort', () => health.drain());
}

main().catch((error: unknown) => {
  const text = isAppError(error) ? error.message : String(error instanceof Error ? error.stack : error);
  process.stderr.write(`plugin-host: ${text}\n`);
  process.exit(1);
});
