import { AppError } from '@codedock/domain';
import { redisAddressOf } from './redis/redis-address.js';

/** What stands behind doorbells and live bus. */
export type QueueBackend = 'redis' | 'postgres';

const BACKENDS: ReadonlyMap<string, QueueBackend> = new Map([
  ['redis', 'redis'],
  ['rediss', 'redis'],
  ['redis+sentinel', 'redis'],
  ['rediss+sentinel', 'redis'],
  ['redis+cluster', 'redis'],
  ['rediss+cluster', 'redis'],
  ['postgres', 'postgres'],
  ['postgresql', 'postgres'],
]);

/**
 * The backend a queue URL names by its scheme.
 * @throws AppError `config_invalid` for anything but PostgreSQL and the forms of a Redis address.
 */
export function queueBackendOf(url: string): QueueBackend {
  const scheme = /^[a-z+]+(?=:\/\/)/i.exec(url)?.[0].toLowerCase() ?? '';
  const backend = BACKENDS.get(scheme);
  if (backend === 'redis') redisAddressOf(url);
  if (backend === undefined || (backend === 'postgres' && !URL.canParse(url))) {
    throw new AppError(
      'config_invalid',
      'QUEUE_URL names no queue: give a redis://, rediss://, redis+sentinel://, redis+cluster:// or postgres:// URL.',
    );
  }
  return backend;
}
