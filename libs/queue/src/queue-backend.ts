import { AppError } from '@codedock/domain';

/** What stands behind doorbells and live bus. */
export type QueueBackend = 'redis' | 'postgres';

const BACKENDS: Readonly<Record<string, QueueBackend>> = {
  'redis:': 'redis',
  'rediss:': 'redis',
  'postgres:': 'postgres',
  'postgresql:': 'postgres',
};

/**
 * The backend a queue URL names by its scheme.
 * @throws AppError `config_invalid` for anything but redis://, rediss://, postgres:// and postgresql://.
 */
export function queueBackendOf(url: string): QueueBackend {
  const backend = URL.canParse(url) ? BACKENDS[new URL(url).protocol] : undefined;
  if (backend === undefined) {
    throw new AppError('config_invalid', 'QUEUE_URL names no queue: give a redis://, rediss:// or postgres:// URL.');
  }
  return backend;
}
