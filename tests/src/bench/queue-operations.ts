import { Redis } from 'ioredis';
import type { Statements } from './statements.js';

/** Statements of the product, and operations of its queue, in a stretch of time. */
export interface Operations {
  readonly own: number;
  /** Statements on PostgreSQL; commands, those of scripts included, on Redis. */
  readonly queue: number;
}

/** The live bus and the clients' own housekeeping, which are no queue. */
const NOT_QUEUE =
  /^(publish|subscribe|unsubscribe|psubscribe|info|config|hello|client|ping|select|auth|quit|command)\b/;

/** Counts from now on; the returned function ends that. */
export async function countOperations(
  statements: Statements,
  redisUrl: string | undefined,
): Promise<() => Promise<Operations>> {
  await statements.reset();
  if (redisUrl === undefined) return () => statements.counts();
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: 1 });
  const before = await commands(redis);
  return async () => {
    const queue = (await commands(redis)) - before;
    redis.disconnect();
    return { own: (await statements.counts()).own, queue };
  };
}

async function commands(redis: Redis): Promise<number> {
  let total = 0;
  for (const [, name = '', calls] of (await redis.info('commandstats')).matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)) {
    if (!NOT_QUEUE.test(name)) total += Number(calls);
  }
  return total;
}
