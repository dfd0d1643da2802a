import { AppError, type LiveBus } from '@codedock/domain';
import { queueBackendOf } from '../queue-backend.js';
import { asError, type QueueReporter } from '../queue-reporter.js';
import { openPostgresBus } from './postgres-bus.js';
import { openRedisBus } from './redis-bus.js';

/** Where the bus runs; `report` hears of trouble that it gets over by itself. */
export interface LiveBusOptions {
  /** Decides the backend: Redis pub/sub for an address of Redis, LISTEN/NOTIFY for postgres://. */
  readonly queueUrl: string;
  /** PostgreSQL without a transaction pooler in between; used by LISTEN/NOTIFY. */
  readonly directUrl: string;
  readonly report?: QueueReporter;
}

/**
 * Connects to the live bus.
 * @throws AppError `config_invalid` for a wrong URL, `queue_unavailable` when the first connection fails; a connection
 * lost later comes back by itself.
 */
export async function createLiveBus(options: LiveBusOptions): Promise<LiveBus> {
  const backend = queueBackendOf(options.queueUrl);
  try {
    return backend === 'redis'
      ? await openRedisBus(options.queueUrl, options.report)
      : await openPostgresBus(options.directUrl, options.report);
  } catch (cause) {
    const names = backend === 'redis' ? 'QUEUE_URL' : 'DATABASE_DIRECT_URL';
    throw new AppError('queue_unavailable', `The live bus cannot be reached: check ${names}.`, {
      cause: asError(cause),
    });
  }
}
