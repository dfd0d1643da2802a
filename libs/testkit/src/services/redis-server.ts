import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { Redis } from 'ioredis';
import { startProcess, type TestProcess } from '../processes/start-process.js';

/** Why there is no Redis. */
export const REDIS_MISSING = 'redis-server is not on PATH and REDIS_URL is not set';

/** Path of `redis-server`; absent when it is not installed. */
export async function findRedisServer(): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(path.delimiter)) {
    const file = path.join(folder, 'redis-server');
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (folder && found) {
      return file;
    }
  }
  return undefined;
}

/** Where a server listens and works, and what is set beside that. */
export interface RedisServerOptions {
  /** Of loopback. */
  readonly port: number;
  readonly folder: string;
  /** A configuration file that the server may rewrite, as Sentinels do. */
  readonly file?: string;
  /** As on the command line: `--name`, `value`. */
  readonly settings?: readonly string[];
  /** In its output when it can be used. */
  readonly ready?: RegExp;
}

/** Starts one process of `redis-server`. */
export async function launchRedisServer(options: RedisServerOptions): Promise<TestProcess> {
  const command = await findRedisServer();
  if (!command) {
    throw new Error(`${REDIS_MISSING}.`);
  }
  return startProcess({
    command,
    name: 'redis-server',
    args: [
      ...(options.file === undefined ? [] : [options.file]),
      ...['--bind', '127.0.0.1', '--port', String(options.port), '--dir', options.folder, '--daemonize', 'no'],
      ...(options.settings ?? []),
    ],
    ready: options.ready ?? /Ready to accept connections/,
  });
}

/** A server of loopback. */
export interface RedisServer {
  readonly port: number;
  readonly password?: string;
}

/** Sends one command over a connection of its own. */
export async function runOnRedis(server: RedisServer, command: string, ...args: readonly string[]): Promise<unknown> {
  const client = new Redis({ ...server, host: '127.0.0.1', maxRetriesPerRequest: 1, retryStrategy: () => null });
  client.on('error', () => undefined);
  try {
    return await client.call(command, ...args);
  } finally {
    client.disconnect();
  }
}

/** One field of the server's answer to INFO. */
export async function redisInfo(server: RedisServer, field: string): Promise<string | undefined> {
  const text = String(await runOnRedis(server, 'INFO'));
  return new RegExp(`^${field}:(.*?)\\r?$`, 'm').exec(text)?.[1];
}
