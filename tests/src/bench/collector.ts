// A collector that behaves as it is told, in a process of its own: what it does must not hold up who measures.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Ways of a collector to behave; `down`: nothing listens. */
export type Behaviour = 'works' | 'down' | 'silent' | 'late' | 'endless';

/** A collector in a process of its own. */
export interface Collector {
  readonly url: string;
  /** Cuts every connection, and from then on behaves otherwise. */
  behave(as: Behaviour): Promise<void>;
  /** Resolves when it has taken a batch of each of these services since it was last told how to behave. */
  heard(...services: readonly string[]): Promise<void>;
  stop(): void;
}

/** Starts a collector that works. */
export async function startCollector(): Promise<Collector> {
  const child = fork(__filename, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const port = await told<number>(child);
  return {
    url: `http://127.0.0.1:${port}`,
    async behave(as) {
      child.send(as);
      await told(child);
    },
    async heard(...services) {
      child.send(services);
      await told(child);
    },
    stop: () => void child.kill('SIGKILL'),
  };
}

/** What the child says next. */
function told<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error('the collector has ended'));
    child.once('exit', ended);
    child.once('message', (message) => {
      child.off('exit', ended);
      resolve(message as T);
    });
  });
}

const NOISE = Buffer.alloc(64 * 1024, 'x');

/** What the batches that were taken hold, until everybody who is waited for was heard. */
let awaited: { readonly services: Set<string>; heard(): void } | undefined;

function took(batch: Buffer): void {
  if (awaited === undefined) return;
  for (const service of awaited.services) if (batch.includes(service)) awaited.services.delete(service);
  if (awaited.services.size > 0) return;
  awaited.heard();
  awaited = undefined;
}

const ANSWERS: Record<Exclude<Behaviour, 'down'>, RequestListener> = {
  works: (request, response) => void request.on('data', took).on('end', () => response.end('{}')),
  silent: (request) => void request.resume(),
  late: (request, response) => {
    request.resume();
    setTimeout(() => response.end('{}'), 1_000);
  },
  /** A failure whose body has no end. */
  endless: (request, response) => {
    request.resume();
    response.writeHead(500);
    const more = setInterval(() => {
      if (!response.writableNeedDrain) response.write(NOISE);
    }, 10);
    response.on('close', () => clearInterval(more));
    response.on('error', () => undefined);
  },
};

async function serve(): Promise<void> {
  let answer: RequestListener = ANSWERS.works;
  const server: Server = createServer((request, response) => answer(request, response));
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const port = await listen(0);
  process.on('message', async (as: Behaviour | string[]) => {
    if (Array.isArray(as)) {
      awaited = { services: new Set(as), heard: () => process.send?.('heard') };
      return;
    }
    if (server.listening) {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    }
    if (as !== 'down') {
      answer = ANSWERS[as];
      await listen(port);
    }
    process.send?.(as);
  });
  process.on('disconnect', () => process.exit());
  process.send?.(port);
}

if (require.main === module) void serve();
