import type { TraceContext } from '@codedock/domain';
import {
  type ConnectionOptions,
  createPostgresBackend,
  type Job,
  type Processor,
  Queue,
  type QueueOptions,
  Worker,
  type WorkerOptions,
} from 'bullmq';
import { reconnectDelay } from './backoff.js';
import { queueBackendOf } from './queue-backend.js';
import { QUEUE_SCHEMA } from './queue-schema.js';
import { REDIS_PREFIX, redisOptions } from './redis/redis-client.js';

/** Name of the one queue. */
const RUN_QUEUE = 'runs';

/** Connections to PostgreSQL per queue client; BullMQ's own default would open ten. */
const POOL_SIZE = 3;

/** What a job carries: nothing that the database does not know better. */
export interface RingJob {
  readonly runId: string;
  readonly trace: TraceContext;
}

export type RunQueue = Pick<
  Queue<RingJob, void, string>,
  'add' | 'getJobCountByTypes' | 'getJobState' | 'waitUntilReady' | 'close' | 'disconnect' | 'on'
>;
export type RunWorker = Pick<
  Worker<RingJob, void, string>,
  'concurrency' | 'run' | 'pause' | 'resume' | 'close' | 'disconnect' | 'waitUntilReady' | 'on'
>;
/** One delivered job. */
export type RunJob = Job<RingJob, void, string>;
type RingProcessor = Processor<RingJob, void, string>;

/** How long one connection attempt to the queue may take, milliseconds. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** ioredis keeps the process alive for this long after every disconnect, milliseconds. */
const DISCONNECT_TIMEOUT_MS = 100;

function redisConnection(url: string, role: 'ring' | 'listen'): ConnectionOptions {
  return redisOptions(url, {
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    retryStrategy: reconnectDelay,
    // A ring must fail at once while Redis is away; a worker simply waits until it is back.
    ...(role === 'ring' ? { enableOfflineQueue: false, maxRetriesPerRequest: 0 } : { maxRetriesPerRequest: null }),
  });
}

function postgresConnection(url: string, role: 'ring' | 'listen') {
  return {
    connectionString: url,
    schema: QUEUE_SCHEMA,
    max: POOL_SIZE,
    keepAlive: true,
    // The start may take this long on a busy machine; a ring has a limit of its own.
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: `codedock-queue-${role}`,
  };
}

/** The producing side of the queue on whichever backend the URL names. */
export function openRunQueue(url: string): RunQueue {
  const options = { skipMetasUpdate: true } satisfies Partial<QueueOptions>;
  if (queueBackendOf(url) === 'redis') {
    return new Queue<RingJob, void, string>(RUN_QUEUE, {
      ...options,
      prefix: REDIS_PREFIX,
      connection: redisConnection(url, 'ring'),
    });
  }
  return new Queue(
    RUN_QUEUE,
    { ...options, connection: postgresConnection(url, 'ring') },
    createPostgresBackend,
  ) as unknown as RunQueue;
}

/** The consuming side of the queue on whichever backend the URL names; does nothing before `run()`. */
export function openRunWorker(url: string, concurrency: number, processor: RingProcessor): RunWorker {
  const options = {
    autorun: false,
    concurrency,
    // The lease in PostgreSQL decides who may work; a job that is delivered once more is harmless at any count.
    maxStalledCount: 2_147_483_647,
    lockDuration: 30_000,
    stalledInterval: 30_000,
    runRetryDelay: 1_000,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  } satisfies Partial<WorkerOptions>;
  if (queueBackendOf(url) === 'redis') {
    return new Worker<RingJob, void, string>(RUN_QUEUE, processor, {
      ...options,
      prefix: REDIS_PREFIX,
      connection: redisConnection(url, 'listen'),
    });
  }
  return new Worker(
    RUN_QUEUE,
    processor,
    { ...options, connection: postgresConnection(url, 'listen') },
    createPostgresBackend,
  ) as unknown as RunWorker;
}
