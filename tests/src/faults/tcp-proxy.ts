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
}

/** A piece of network between two parts of a system, which can be broken. */
export interface TcpProxy {
  /** Loopback port to connect to instead. */
  readonly port: number;
  /** Ends every connection, and every new one at once, as a host does that refuses. */
  cut(): void;
  /** From now on no byte gets through, in no direction, and nobody is told: a black hole. New connections are taken. */
  stall(): void;
  /** Lets everything through again; what a black hole has swallowed arrives late. */
  heal(): void;
  close(): Promise<void>;
}

/** Listens on a free loopback port and passes on what comes. */
export async function startTcpProxy({ to, filter }: TcpProxyOptions): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  /** Sockets whose other side takes no more for now. */
  const full = new Set<Socket>();
  let state: 'open' | 'cut' | 'stalled' = 'open';

  const server = createServer((near) => {
    if (state === 'cut') {
      near.destroy();
      return;
    }
    const far = connect(to, '127.0.0.1');
    const watch = filter?.();
    const sever = () => {
      near.destroy();
      far.destroy();
    };
    const pass = (from: Socket, into: Socket, bytes: Buffer) => {
      if (into.write(bytes)) return;
      full.add(from);
      from.pause();
      into.once('drain', () => {
        full.delete(from);
        if (state !== 'stalled') from.resume();
      });
    };
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.setNoDelay();
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        full.delete(socket);
        sever();
      });
    }
    near.on('end', () => far.end());
    far.on('end', () => near.end());
    near.on('data', (bytes: Buffer) => {
      watch?.fromClient(bytes);
      pass(near, far, bytes);
    });
    far.on('data', (bytes: Buffer) => {
      const passed = watch === undefined ? bytes : watch.fromServer(bytes);
      if (passed === 'sever') sever();
      else if (passed.length > 0) pass(far, near, passed);
    });
    // A listener for data sets a socket flowing.
    if (state === 'stalled') for (const socket of [near, far]) socket.pause();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as { port: number }).port,
    cut() {
      state = 'cut';
      destroyAll();
    },
    stall() {
      state = 'stalled';
      for (const socket of sockets) socket.pause();
    },
    heal() {
      state = 'open';
      for (const socket of sockets) if (!full.has(socket)) socket.resume();
    },
    async close() {
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
