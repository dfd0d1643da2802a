import { connect as connectPlain, Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';
import { asError } from '../queue-reporter.js';
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
    private asking: Redis | undefined;

    constructor() {
      super(DISCONNECT_TIMEOUT_MS);
    }

    async connect(_onError: ErrorEmitter): Promise<Stream> {
      this.connecting = true;
      delete this.firstError;
      const master = await this.findMaster().catch((error: unknown) => {
        this.firstError = asError(error);
      });
      if (master === undefined || !this.connecting) {
        // ioredis gives up for good where this rejects; a connection that is closed already is made again.
        this.stream = new Socket().destroy();
        return this.stream;
      }
      this.stream = address.tls ? connectSecurely({ ...master, ...nameOf(master) }) : connectPlain(master);
      this.stream.once('error', (error: Error) => {
        this.firstError = error;
      });
      return this.stream;
    }

    override disconnect(): void {
      super.disconnect();
      this.asking?.disconnect();
    }

    private async findMaster(): Promise<RedisNode> {
      const first = this.attempts;
      this.attempts += 1;
      const { known } = this;
      const causes = new Set<string>();
      for (let index = 0; index < known.length && this.connecting; index += 1) {
        const node = known[(first + index) % known.length] as RedisNode;
        this.asking = askingClient(node, address);
        try {
          const { master, nodes } = await askForMaster(this.asking, node, keys);
          this.known = distinct([...nodes, ...address.nodes]);
          return master;
        } catch (cause) {
          causes.add(asError(cause).message);
        }
      }
      throw new Error(`no node of the Cluster says who holds its keys: ${[...causes].join('; ')}`);
    }
  };
}

const distinct = (nodes: readonly RedisNode[]) => [
  ...new Map(nodes.map((node) => [`${node.host} ${node.port}`, node])).values(),
];
/** A certificate is for a name, and an address is no name for the handshake (RFC 6066, 3). */
const nameOf = ({ host }: RedisNode) => (/^[\d.]+$|:/.test(host) ? {} : { servername: host });

/** Not connected yet. */
function askingClient(node: RedisNode, { username, password, tls }: ClusterRedis): Redis {
  return new Redis({
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
}

/** The master of the slot of `keys`, and all nodes, as one of them says (`CLUSTER SLOTS`). Ends the client. */
async function askForMaster(
  client: Redis,
  asked: RedisNode,
  keys: string,
): Promise<{ readonly master: RedisNode; readonly nodes: readonly RedisNode[] }> {
  // A rejection says that the connection is closed; the event says why, and unheard it would be written to stderr.
  let reason: Error | undefined;
  client.on('error', (error: Error) => {
    reason = error;
  });
  try {
    await client.connect();
    const slot = Number(await client.call('CLUSTER', 'KEYSLOT', keys));
    const ranges = (await client.call('CLUSTER', 'SLOTS')) as [number, number, ...[string | null, number][]][];
    // A node that does not know its own name leaves it out.
    const read = ([host, port]: [string | null, number]) => ({ host: host || asked.host, port });
    const own = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2];
    if (own === undefined) throw new Error('no master holds the slot');
    return { master: read(own), nodes: ranges.flatMap(([, , ...nodes]) => nodes.map(read)) };
  } catch (error) {
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}
