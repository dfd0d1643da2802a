import { AppError } from '@codedock/domain';

/** Host and port of one server. */
export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

/** How to get in. */
export interface RedisAccess {
  readonly tls: boolean;
  readonly username?: string;
  readonly password?: string;
}

/** One server, as ioredis reads it. */
export interface SingleRedis {
  readonly kind: 'single';
  readonly url: string;
}

/** The server that is the master now, which Sentinels know. */
export interface SentinelRedis extends RedisAccess {
  readonly kind: 'sentinel';
  readonly sentinels: readonly RedisNode[];
  /** Name under which the Sentinels watch it. */
  readonly master: string;
  readonly database: number;
  readonly sentinelUsername?: string;
  readonly sentinelPassword?: string;
}

/** A Cluster, by some of its nodes. */
export interface ClusterRedis extends RedisAccess {
  readonly kind: 'cluster';
  readonly nodes: readonly RedisNode[];
}

export type RedisAddress = SingleRedis | SentinelRedis | ClusterRedis;

const SEVERAL_HOSTS = /^(rediss?)\+(sentinel|cluster):\/\/([^/?#]*@)?([^/?#@]*)(.*)$/i;
const FORMS = {
  single: 'redis://[user:password@]host[:6379][/<database>]',
  sentinel: 'redis+sentinel://[user:password@]host[:26379][,host…]/<name of the master>[/<database>]',
  cluster: 'redis+cluster://[user:password@]host[:6379][,host…]',
} as const;
const PORTS = { sentinel: 26_379, cluster: 6_379 } as const;
const SENTINEL_PARAMETERS = ['sentinel_username', 'sentinel_password'];

/**
 * Reads `redis://`, `redis+sentinel://` and `redis+cluster://`, and each with `rediss` for TLS. The last two may name
 * several hosts, separated by commas, which is more than the authority of a URL can (RFC 3986, 3.2.2): each is read on
 * its own. `sentinel_username` and `sentinel_password` in the query are for the Sentinels themselves.
 * @throws AppError `config_invalid`; its message never repeats the URL.
 */
export function redisAddressOf(url: string): RedisAddress {
  const match = SEVERAL_HOSTS.exec(url);
  if (match === null) {
    if (!URL.canParse(url)) throw refused('single', 'cannot be read');
    return { kind: 'single', url };
  }
  const [, scheme = '', form = '', userinfo = '', authority = '', rest = ''] = match;
  const kind = form.toLowerCase() === 'cluster' ? 'cluster' : 'sentinel';
  const hosts = authority.split(',');
  const nodes = hosts.map((host) => nodeOf(host, kind));
  // A plus stays one, as in a password before the hosts; forms mean a space by it.
  const first = `redis://${userinfo}${hosts[0]}${rest.replaceAll('+', '%2B')}`;
  if (!URL.canParse(first) || first.includes('#')) throw refused(kind, 'cannot be read');
  const parsed = new URL(first);
  const access = {
    tls: scheme.toLowerCase() === 'rediss',
    ...named('username', decoded(parsed.username, kind)),
    ...named('password', decoded(parsed.password, kind)),
  };
  const parameters = kind === 'sentinel' ? SENTINEL_PARAMETERS : [];
  for (const name of parsed.searchParams.keys()) {
    // Not which one: it may be what follows a question mark in a password.
    if (!parameters.includes(name)) throw refused(kind, 'has an unknown parameter (a ? in a password is written %3F)');
  }
  const [master = '', database = '0', ...more] = parsed.pathname.split('/').slice(1);
  if (kind === 'cluster') {
    if (master !== '') throw refused(kind, 'names a database, and a Cluster has but one');
    return { kind, nodes, ...access };
  }
  if (master === '') throw refused(kind, 'does not name the master that the Sentinels watch');
  if (!/^\d{1,4}$/.test(database) || more.length > 0) throw refused(kind, 'has no number for its database');
  return {
    kind,
    sentinels: nodes,
    master: decoded(master, kind),
    database: Number(database),
    ...access,
    ...named('sentinelUsername', parsed.searchParams.get('sentinel_username') ?? ''),
    ...named('sentinelPassword', parsed.searchParams.get('sentinel_password') ?? ''),
  };
}

function nodeOf(host: string, kind: 'sentinel' | 'cluster'): RedisNode {
  if (host === '' || !URL.canParse(`redis://${host}`)) throw refused(kind, 'has a host that cannot be read');
  const { hostname, port } = new URL(`redis://${host}`);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? PORTS[kind] : Number(port) };
}

function named<K extends string>(name: K, text: string): { readonly [P in K]?: string } {
  return (text === '' ? {} : { [name]: text }) as { readonly [P in K]?: string };
}

function decoded(text: string, kind: 'sentinel' | 'cluster'): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refused(kind, 'has a percent sign that encodes nothing (write %25)');
  }
}

function refused(kind: RedisAddress['kind'], what: string): AppError {
  return new AppError('config_invalid', `QUEUE_URL ${what}. Write ${FORMS[kind]}; rediss instead of redis for TLS.`);
}
