import type { TraceContext } from '@codedock/domain';
import {
  createIORedisClient,
  createPostgresBackend,
  type Job,
  type Processor,
  Queue,
  type QueueOptions,
  RedisConnection,
  Worker,
  type WorkerOptions,
} from 'bullmq';
import type { Redis } from 'ioredis';
import { queueBackendOf } from './queue-backend.js';
import { QUEUE_SCHEMA } from './queue-schema.js';
import { REDIS_PREFIX, type RedisBehaviour, redisClient, SILENCE_MS } from './redis/redis-client.js';

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

/** How long the queue may take to let go of what asks it for nothing more, milliseconds. */
export const CLOSE_TIMEOUT_MS = 3_000;

/** As `SILENCE_MS`, where a wait for the next job is answered after ten seconds at the latest, milliseconds. */
const LISTENING_SILENCE_MS = 15_000;

/** Makes BullMQ's clients where it would make those of one server, and can end them when it cannot. */
interface RedisClients {
  readonly open: () => Redis;
  readonly end: () => void;
}

// BullMQ's own way to have clients made by somebody else, one for the process; it closes them as if they were its own.
RedisConnection.clientFactory = (options) => createIORedisClient((options['clients'] as RedisClients).open());

function redisClients(url: string, role: 'ring' | 'listen'): RedisClients {
  const behaviour: RedisBehaviour = {
    connectTimeout: CONNECT_TIMEOUT_MS,
    // A ring must fail at once while Redis is away; a worker simply waits until it is back.
    ...(role === 'ring'
      ? { socketTimeout: SILENCE_MS, enableOfflineQueue: false, maxRetriesPerRequest: 0 }
      : { socketTimeout: LISTENING_SILENCE_MS, maxRetriesPerRequest: null }),
  };
  const opened: Redis[] = [];
  return {
    open() {
      const client = redisClient(url, behaviour);
      // BullMQ reports errors until it closes; after that an unheard one would be written to stderr.
      client.on('error', () => undefined);
      opened.push(client);
      return client;
    },
    end: () => {
      for (const client of opened) {
        // What still waits for an interrupted connection makes a new one when that is gone.
        client.on('connecting', () => client.disconnect());
        client.disconnect();
      }
    },
  };
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

/** A queue or worker, and how to drop its connections without waiting for anything. */
export interface Opened<T> {
  readonly queue: T;
  readonly end: () => void;
}

/** The producing side of the queue on whichever backend the URL names. */
export function openRunQueue(url: string): Opened<RunQueue> {
  const options = { skipMetasUpdate: true } satisfies Partial<QueueOptions>;
  if (queueBackendOf(url) === 'redis') {
    const clients = redisClients(url, 'ring');
    const queue = new Queue<RingJob, void, string>(RUN_QUEUE, {
      ...options,
      prefix: REDIS_PREFIX,
      connection: { clients },
    });
    return { queue, end: clients.end };
  }
  const queue = new Queue(
    RUN_QUEUE,
    { ...options, connection: postgresConnection(url, 'ring') },
    createPostgresBackend,
  ) as unknown as RunQueue;
  return { queue, end: () => drop(queue) };
}

/** The consuming side of the queue on whichever backend the URL names; does nothing before `run()`. */
export function openRunWorker(url: string, concurrency: number, processor: RingProcessor): Opened<RunWorker> {
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
    const clients = redisClients(url, 'listen');
    const queue = new Worker<RingJob, void, string>(RUN_QUEUE, processor, {
      ...options,
      prefix: REDIS_PREFIX,
      connection: { clients },
    });
    return { queue, end: clients.end };
  }
  const queue = new Worker(
    RUN_QUEUE,
    processor,
    { ...options, connection: postgresConnection(url, 'listen') },
    createPostgresBackend,
  ) as unknown as RunWorker;
  return { queue, end: () => drop(queue) };
}

const drop = (queue: Pick<RunQueue, 'disconnect'>) => void queue.disconnect().catch(() => undefined);
