import { AppError } from '@codedock/domain';
import { Redis } from 'ioredis';
import { within } from './within.js';

/**
 * Refuses a Redis that may evict keys under memory pressure: it would silently drop jobs and locks.
 * @throws AppError `config_invalid` for another policy than `noeviction`, `queue_unavailable` when Redis cannot be asked.
 */
export async function requireNoEviction(url: string, timeoutMs: number): Promise<void> {
  const redis = new Redis(url, {
    lazyConnect: true,
    disconnectTimeout: 100,
    connectTimeout: timeoutMs,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  // The rejection of the command carries the reason; an unheard event would end the process.
  redis.on('error', () => undefined);
  let memory: string;
  try {
    memory = await within(
      redis.connect().then(() => redis.info('memory')),
      timeoutMs,
      () => new Error(`no answer within ${timeoutMs} ms`),
    );
  } catch (cause) {
    throw new AppError(
      'queue_unavailable',
      'Redis cannot be reached: check QUEUE_URL, and that Redis runs and accepts the password.',
      { cause },
    );
  } finally {
    redis.disconnect();
  }
  const policy = /^maxmemory_policy:(.+?)\r?$/m.exec(memory)?.[1];
  if (policy !== undefined && policy !== 'noeviction') {
    throw new AppError(
      'config_invalid',
      `Redis at QUEUE_URL evicts keys under memory pressure (maxmemory-policy ${policy}), which loses jobs: set maxmemory-policy to noeviction.`,
    );
  }
}
