import { AppError } from '@codedock/domain';
import { asError } from '../queue-reporter.js';
import { within } from '../within.js';
import { redisAddressOf } from './redis-address.js';
import { redisClient } from './redis-client.js';

/**
 * Refuses a Redis that may evict keys under memory pressure (it would silently drop jobs and locks), and an address of
 * one form for a Redis of another. Of a Cluster the master of CodeDock's keys is asked.
 * @throws AppError `config_invalid` for another policy than `noeviction` or a wrong form, `queue_unavailable` when
 * Redis cannot be asked.
 */
export async function requireNoEviction(url: string, timeoutMs: number): Promise<void> {
  const { kind } = redisAddressOf(url);
  const redis = redisClient(url, {
    lazyConnect: true,
    connectTimeout: timeoutMs,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  // A rejection says that the connection is closed; the event says why.
  let reason: Error | undefined;
  redis.on('error', (error: Error) => {
    reason = error;
  });
  let info: string;
  try {
    info = await within(
      redis.connect().then(() => redis.info()),
      timeoutMs,
      () => new Error(`no answer within ${timeoutMs} ms`),
    );
  } catch (error) {
    throw new AppError('queue_unavailable', UNREACHABLE[kind], { cause: asError(reason ?? error) });
  } finally {
    redis.disconnect();
  }
  const mode = fieldOf(info, 'redis_mode');
  if (kind === 'single' && (mode === 'sentinel' || mode === 'cluster')) {
    throw new AppError('config_invalid', OTHER_FORM[mode]);
  }
  const policy = fieldOf(info, 'maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    throw new AppError(
      'config_invalid',
      `Redis at QUEUE_URL evicts keys under memory pressure (maxmemory-policy ${policy}), which loses jobs: set maxmemory-policy to noeviction.`,
    );
  }
}

const UNREACHABLE = {
  single: 'Redis cannot be reached: check QUEUE_URL, and that Redis runs and accepts the password.',
  sentinel:
    'Redis cannot be reached through its Sentinels: check hosts and name of the master in QUEUE_URL, and that Sentinels and master run and accept the passwords.',
  cluster:
    'The Redis Cluster cannot be reached: check the hosts in QUEUE_URL, and that it is up, has all its slots and accepts the password.',
} as const;

const OTHER_FORM = {
  sentinel:
    'QUEUE_URL leads to a Redis Sentinel: write redis+sentinel://host[,host…]/<name of the master that it watches>.',
  cluster: 'QUEUE_URL leads to a node of a Redis Cluster: write redis+cluster://host[,host…].',
} as const;

/** A field of the answer to INFO. */
function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.+?)\\r?$`, 'm').exec(info)?.[1];
}
