import { Redis, type RedisOptions } from 'ioredis';
import { reconnectDelay } from '../backoff.js';
import { clusterConnector } from './cluster-connector.js';
import { redisAddressOf } from './redis-address.js';

/** Prefix of every key and channel; what is in the braces decides the slot, so that all are on one node of a Cluster. */
export const REDIS_PREFIX = '{codedock}';

type Settings =
  | 'autoResubscribe'
  | 'connectTimeout'
  | 'enableOfflineQueue'
  | 'keepAlive'
  | 'lazyConnect'
  | 'maxRetriesPerRequest'
  | 'socketTimeout';

/** How a connection behaves; where it leads is the address's business. */
export type RedisBehaviour = { readonly [S in Settings]?: Exclude<RedisOptions[S], undefined> } & {
  readonly retryStrategy?: NonNullable<RedisOptions['retryStrategy']>;
};

/** How long an answer may take before a connection counts as dead, where nothing long is waited for, milliseconds. */
export const SILENCE_MS = 5_000;
/** ioredis keeps the process alive for this long after every disconnect, milliseconds. */
const DISCONNECT_TIMEOUT_MS = 100;
/** How long one Sentinel may take to say who the master is, milliseconds: then the next one is asked. */
const SENTINEL_TIMEOUT_MS = 1_000;

/** A master that has become a replica goes on answering: the connection has to find the one that takes writes. */
const leadsElsewhere = ({ message }: Error) => /\b(READONLY|MOVED|CLUSTERDOWN)\b/.test(message);

function redisOptions(url: string, behaviour: RedisBehaviour) {
  const address = redisAddressOf(url);
  const options = {
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    retryStrategy: reconnectDelay,
    ...behaviour,
    reconnectOnError: leadsElsewhere,
  };
  if (address.kind === 'single') return { ...options, url };
  const { username, password, tls } = address;
  const access = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  };
  if (address.kind === 'cluster') {
    const connector = { Connector: clusterConnector(address, REDIS_PREFIX) };
    // ioredis has to know that a connection is there only after a handshake.
    return { ...options, ...access, ...(tls ? { tls: {} } : {}), ...connector };
  }
  const { sentinels, master, database, sentinelUsername, sentinelPassword } = address;
  return {
    ...options,
    ...access,
    sentinels: [...sentinels],
    name: master,
    db: database,
    ...(sentinelUsername === undefined ? {} : { sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(tls ? { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
    sentinelCommandTimeout: SENTINEL_TIMEOUT_MS,
    sentinelRetryStrategy: options.retryStrategy,
  };
}

/**
 * A client of whatever the address names; it finds the new master after a failover by itself. With `socketTimeout` also
 * one that has gone without a word: a connection on which an answer is missing for so long is made anew.
 * @throws AppError `config_invalid` for an address that cannot be read.
 */
export function redisClient(address: string, behaviour: RedisBehaviour): Redis {
  const options = redisOptions(address, behaviour);
  return 'url' in options ? new Redis(options.url, options) : new Redis(options);
}
