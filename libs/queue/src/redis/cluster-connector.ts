import { connect as connectPlain } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';
import type { ClusterRedis, RedisNode } from './redis-address.js';

type ErrorEmitter = Parameters<AbstractConnector['connect']>[0];
type Stream = Awaited<ReturnType<AbstractConnector['connect']>>;

/** How long one node may take to say who holds a slot, milliseconds. */
const ASK_TIMEOUT_MS = 1_000;
/** ioredis keeps the process alive for this long after a connection was closed, milliseconds. */
const DISCONNECT_TIMEOUT_MS = 100;

/**
 * Leads a connection to the node of a Cluster that is the master of one slot, and after a failover to the one that is
 * it then. Each attempt begins with another one of the nodes known so far: one that is cut off from the others may have
 * missed the change. `keys` is any key of the slot.
 */
export function clusterConnector(address: ClusterRedis, keys: string): NonNullable<RedisOptions['Connector']> {
  return class ClusterConnector extends AbstractConnector {
    private known: readonly RedisNode[] = address.nodes;
    private attempts = Math.floor(Math.random() * address.nodes.length);

    constructor() {
      super(DISCONNECT_TIMEOUT_MS);
    }

    async connect(_onError: ErrorEmitter): Promise<Stream> {
      this.connecting = true;
      const master = await this.findMaster();
      if (!this.connecting) throw new Error('Connection is closed.');
      this.stream = address.tls ? connectSecurely({ ...master, ...nameOf(master) }) : connectPlain(master);
      this.stream.once('error', (error: Error) => {
        this.firstError = error;
      });
      return this.stream;
    }

    private async findMaster(): Promise<RedisNode> {
      const first = this.attempts;
      this.attempts += 1;
      const causes: unknown[] = [];
      for (const [index] of this.known.entries()) {
        const node = this.known[(first + index) % this.known.length] as RedisNode;
        try {
          const { master, nodes } = await askForMaster(node, address, keys);
          this.known = [...nodes, ...address.nodes.filter((seed) => !nodes.some((each) => isSame(each, seed)))];
          return master;
        } catch (cause) {
          causes.push(cause);
        }
      }
      throw new Error(`no node of the Cluster says who holds its keys: ${causes.map(String).join('; ')}`);
    }
  };
}

const isSame = (one: RedisNode, other: RedisNode) => one.host === other.host && one.port === other.port;
/** A certificate is for a name, and an address is no name for the handshake (RFC 6066, 3). */
const nameOf = ({ host }: RedisNode) => (/^[\d.]+$|:/.test(host) ? {} : { servername: host });

/** The master of the slot of `keys`, and all nodes, as one of them says: `CLUSTER SLOTS`. */
async function askForMaster(
  node: RedisNode,
  { username, password, tls }: ClusterRedis,
  keys: string,
): Promise<{ readonly master: RedisNode; readonly nodes: readonly RedisNode[] }> {
  const client = new Redis({
    ...node,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: nameOf(node) } : {}),
    lazyConnect: true,
    enableReadyCheck: false,
    connectTimeout: ASK_TIMEOUT_MS,
    commandTimeout: ASK_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  // The rejection says it, too; an unheard event would end the process.
  let reason: Error | undefined;
  client.on('error', (error: Error) => {
    reason = error;
  });
  try {
    await client.connect();
    const slot = Number(await client.call('CLUSTER', 'KEYSLOT', keys));
    const ranges = (await client.call('CLUSTER', 'SLOTS')) as [number, number, ...[string | null, number][]][];
    // A node that does not know its own name leaves it out.
    const read = ([host, port]: [string | null, number]) => ({ host: host || node.host, port });
    const own = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2];
    if (own === undefined) throw new Error('no master holds the slot');
    return { master: read(own), nodes: ranges.flatMap(([, , ...nodes]) => nodes.map(read)) };
  } catch (error) {
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}
