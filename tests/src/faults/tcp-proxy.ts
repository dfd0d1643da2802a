import { connect, createServer, type Socket } from 'node:net';

/** Looks at the bytes of one connection, and may end it. */
export interface LinkFilter {
  /** Bytes of the client, before they are sent on. */
  fromClient(bytes: Buffer): void;
  /** What of the server's bytes is sent on; `sever` ends the connection on both sides, these bytes unsent. */
  fromServer(bytes: Buffer): Buffer | 'sever';
}

/** Where to, and what looks at each connection. */
export interface TcpProxyOptions {
  /** Port on loopback. */
  readonly to: number;
  /** Called for each connection; absent: all bytes pass as they are. */
  readonly filter?: () => LinkFilter;
  /** 0 ≤ n < 1, for `slow`. Default `Math.random`. */
  readonly random?: () => number;
}

/**
 * How a network fails between two processes. `drop`: nothing gets through, in neither direction, and nobody is told.
 * `reject`: connections are ended, new ones at once. `half-open`: the server sees its connections end, the clients see
 * nothing. `one-way`: what clients send arrives, no answer comes back.
 */
export type LinkFault = 'drop' | 'reject' | 'half-open' | 'one-way';

/** How badly a network carries bytes. */
export interface Weather {
  /** How late they arrive, milliseconds for there and back: half of it each way. Default 0. */
  readonly meanMs?: number;
  /** At most so much more or less. Default 0. */
  readonly jitterMs?: number;
  /**
   * Share of pieces that are lost on their way, 0 ≤ n < 1. TCP sends them again: they and all behind them are late by
   * `RETRANSMIT_MS` more. Default 0.
   */
  readonly loss?: number;
  /** Bytes per second of each connection and direction. Default: no limit. */
  readonly bytesPerSecond?: number;
}

/** Until TCP sends again what was not acknowledged: the least that Linux waits (`TCP_RTO_MIN`) beyond the way there and back. */
const RETRANSMIT_MS = 200;

/** A piece of network between two parts of a system, which can be broken. */
export interface TcpProxy {
  /** Loopback port to connect to instead. */
  readonly port: number;
  /** Breaks it for old and new connections, until it is healed. */
  cut(fault: LinkFault): void;
  /** Lets everything through again; what was held back arrives late, and who lost the other side is told. */
  heal(): void;
  /** Leads to another port of loopback from now on; connections to the former one end. */
  moveTo(port: number): void;
  /** From now on bytes travel in this weather. */
  slow(weather: Weather): void;
  close(): Promise<void>;
}

interface Connection {
  readonly near: Socket;
  readonly far: Socket;
  /** Sides that do not know yet that the other is gone. */
  readonly untold: Set<Socket>;
}

/** Listens on a free loopback port and passes on what comes. */
export async function startTcpProxy({ to, filter, random = Math.random }: TcpProxyOptions): Promise<TcpProxy> {
  const connections = new Set<Connection>();
  /** Sockets whose other side takes no more for now. */
  const full = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  let destination = to;
  let fault: LinkFault | undefined;
  let weather: Weather = {};
  const isFair = ({ meanMs = 0, loss = 0, bytesPerSecond }: Weather) =>
    meanMs === 0 && loss === 0 && bytesPerSecond === undefined;

  const isHeld = (from: Socket, { far }: Connection) =>
    fault === 'drop' || fault === 'half-open' || (fault === 'one-way' && from === far);
  const flow = (from: Socket, connection: Connection) => {
    if (isHeld(from, connection) || full.has(from)) from.pause();
    else from.resume();
  };
  const flowAll = (connection: Connection) => {
    flow(connection.near, connection);
    flow(connection.far, connection);
  };

  const server = createServer({ allowHalfOpen: true }, (near) => {
    near.on('error', () => undefined);
    if (fault === 'reject') {
      near.destroy();
      return;
    }
    const far = connect({ port: destination, host: '127.0.0.1', allowHalfOpen: true });
    const connection: Connection = { near, far, untold: new Set() };
    connections.add(connection);
    const watch = filter?.();
    const pass = (from: Socket, into: Socket, bytes: Buffer) => {
      if (!into.writable || into.write(bytes)) return;
      full.add(from);
      flow(from, connection);
      into.once('drain', () => {
        full.delete(from);
        flow(from, connection);
      });
    };
    const pump = (from: Socket, into: Socket, seen: (bytes: Buffer) => Buffer | 'sever') => {
      // In the order of their coming: bytes do not overtake each other.
      const late: { readonly at: number; readonly act: () => void }[] = [];
      const next = () => {
        const [first] = late;
        if (first === undefined) return;
        const timer = setTimeout(
          () => {
            timers.delete(timer);
            late.shift();
            first.act();
            next();
          },
          Math.max(0, first.at - performance.now()),
        );
        timers.add(timer);
      };
      /** When the last byte so far is on its way. */
      let free = 0;
      const later = (act: () => void, bytes = 0) => {
        if (isFair(weather) && late.length === 0) return act();
        const { meanMs = 0, jitterMs = 0, loss = 0, bytesPerSecond = Number.POSITIVE_INFINITY } = weather;
        const lost = bytes > 0 && random() < loss ? meanMs + RETRANSMIT_MS : 0;
        free = Math.max(free, performance.now()) + (bytes / bytesPerSecond) * 1_000;
        late.push({ at: free + meanMs / 2 + ((random() * 2 - 1) * jitterMs) / 2 + lost, act });
        if (late.length === 1) next();
      };
      from.setNoDelay();
      from.on('error', () => undefined);
      from.on('data', (bytes: Buffer) => {
        const passed = seen(bytes);
        if (passed === 'sever') {
          near.destroy();
          far.destroy();
        } else if (passed.length > 0) later(() => pass(from, into, passed), passed.length);
      });
      from.on('end', () => later(() => void into.end()));
      from.on('close', () => {
        full.delete(from);
        // That a side is gone is no news to the other as long as nothing gets there.
        if (isHeld(from, connection)) connection.untold.add(into);
        else later(() => into.destroy());
        if (near.destroyed && far.destroyed) connections.delete(connection);
      });
    };
    pump(near, far, (bytes) => {
      watch?.fromClient(bytes);
      return bytes;
    });
    pump(far, near, (bytes) => (watch === undefined ? bytes : watch.fromServer(bytes)));
    // A listener for data sets a socket flowing.
    flowAll(connection);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const destroyAll = () => {
    for (const { near, far } of connections) {
      near.destroy();
      far.destroy();
    }
  };
  return {
    port: (server.address() as { port: number }).port,
    cut(kind) {
      fault = kind;
      if (kind === 'reject') destroyAll();
      for (const connection of connections) {
        flowAll(connection);
        if (kind === 'half-open') {
          connection.untold.add(connection.near);
          connection.far.resetAndDestroy();
        }
      }
    },
    heal() {
      fault = undefined;
      for (const connection of connections) {
        for (const side of connection.untold) side.resetAndDestroy();
        flowAll(connection);
      }
    },
    moveTo(port) {
      destination = port;
      destroyAll();
    },
    slow(wanted) {
      weather = wanted;
    },
    async close() {
      for (const timer of timers) clearTimeout(timer);
      destroyAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The URL with the port of a proxy in the place of its own. */
export function throughProxy(url: string, { port }: Pick<TcpProxy, 'port'>): string {
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = String(port);
  return through.href;
}
