import { isAppError } from '@codedock/domain';
import pino from 'pino';
import { readConfig } from './config.js';
import { servePluginHost } from './serve.js';

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = pino({ name: 'plugin-host', level: config.logLevel });
  const running = await servePluginHost(config, log, process.env);
  const end = (signal: NodeJS.Signals) => {
    log.info({ signal }, 'ending');
    running.close().then(
      () => process.exit(0),
      (error: Error) => {
        log.error({ err: error }, 'the plugin-host did not end cleanly');
        process.exit(1);
      },
    );
  };
  process.once('SIGTERM', end);
  process.once('SIGINT', end);
  process.once('SIGHUP', end);
}

main().catch((error: unknown) => {
  process.stderr.write(`plugin-host: ${isAppError(error) ? error.message : String(error instanceof Error ? error.stack : error)}\n`);
  process.exit(1);
});
