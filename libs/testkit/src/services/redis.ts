import { rm } from 'node:fs/promises';
import path from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../processes/free-port.js';
import { temporaryFolder } from '../processes/leftovers.js';
import { findRedisServer, launchRedisServer, REDIS_MISSING, runOnRedis } from './redis-server.js';
import { testServices } from './test-services.js';

/** How a Redis of a test's own is set up. */
export interface TestRedisOptions {
  /** Keeps an append-only file, which a killed server finds again. Default: nothing is kept. */
  readonly appendOnly?: boolean;
  /** Absolute path of a folder that is there, such as a small file system, and stays; default: a temporary one. */
  readonly folder?: string;
}

/** A Redis server of a test: real process, own folder, nothing evicted. */
export interface TestRedis {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Sends one command over a connection of its own, e.g. `run('FLUSHALL')`. */
  run(command: string, ...args: readonly string[]): Promise<unknown>;
  /** kill -9; what it held is lost unless it keeps an append-only file. */
  kill(): Promise<void>;
  /** Kills it if it runs, and starts it again on the same port. `empty`: also what it kept is lost. */
  restart(options?: { readonly empty?: boolean }): Promise<void>;
  stop(): Promise<void>;
}

/** Where a test file's own Redis database is. */
export interface TestRedisDatabase {
  readonly url: string;
  /** Empties it. */
  flush(): Promise<void>;
}

/** Starts a Redis of one's own on a free loopback port, e.g. to kill it. Use below `describeWithRedis`. */
export async function startRedis({ appendOnly = false, folder: given }: TestRedisOptions = {}): Promise<TestRedis> {
  const folder =
    given === undefined ? await temporaryFolder('codedock-redis-') : { path: given, remove: async () => undefined };
  const port = await freePort();
  const launch = () =>
    launchRedisServer({
      port,
      folder: folder.path,
      settings: ['--save', '', '--appendonly', appendOnly ? 'yes' : 'no', '--maxmemory-policy', 'noeviction'],
    });
  let running = await launch();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return running.pid;
    },
    run: (command, ...args) => runOnRedis({ port }, command, ...args),
    kill: async () => {
      await running.kill();
    },
    restart: async ({ empty = false } = {}) => {
      await running.kill();
      if (empty) await rm(path.join(folder.path, 'appendonlydir'), { recursive: true, force: true });
      running = await launch();
    },
    stop: async () => {
      await running.stop();
      await folder.remove();
    },
  };
}

/** The Redis of a Jest run: `REDIS_URL`, a started server, or why there is none. */
export async function startRunRedis(): Promise<
  { readonly url: string; stop(): Promise<void> } | { readonly skipped: string }
> {
  const external = process.env['REDIS_URL'];
  if (external) {
    return { url: external, stop: async () => undefined };
  }
  if (await findRedisServer()) {
    return startRedis();
  }
  if (process.env['REQUIRE_REDIS'] === '1') {
    throw new Error(`REQUIRE_REDIS=1, but ${REDIS_MISSING}. Install redis-server or set REDIS_URL.`);
  }
  return { skipped: REDIS_MISSING };
}

/**
 * The Redis of this run with a database number of this Jest worker, emptied. Publish/subscribe is shared by all
 * numbers of a server. @throws when the run has no Redis; use below `describeWithRedis`.
 */
export async function requireRedis(): Promise<TestRedisDatabase> {
  const { redis } = testServices();
  if ('skipped' in redis) {
    throw new Error(`This test needs Redis: ${redis.skipped}.`);
  }
  const url = new URL(redis.url);
  url.pathname = `/${Number(process.env['JEST_WORKER_ID'] ?? '1') % 16}`;
  const flush = async () => {
    const client = new Redis(url.href, { maxRetriesPerRequest: 1 });
    try {
      await client.flushdb();
    } finally {
      await client.quit();
    }
  };
  await flush();
  return { url: url.href, flush };
}

/** `describe` where the run has Redis, `describe.skip` elsewhere; the run's set-up has printed why. */
export function describeWithRedis(name: string, suite: () => void): void {
  const { redis } = testServices();
  ('skipped' in redis ? describe.skip : describe)(name, suite);
}
