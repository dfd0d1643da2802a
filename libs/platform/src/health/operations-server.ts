import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Address } from '../config/index.js';
import type { Health } from './health.js';

/** What a program without an HTTP API serves to its operators. */
export interface OperationsServerOptions {
  readonly listen: Address;
  readonly health: Health;
  /** Answers /metrics; without it 404. */
  readonly metrics?: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
}

/** A running server. */
export interface OperationsServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves /healthz, /readyz (200 or 503 with the report) and /metrics. */
export async function startOperationsServer(options: OperationsServerOptions): Promise<OperationsServer> {
  const { listen, health, metrics } = options;
  const server = createServer((request, response) => {
    const path = request.url?.split('?')[0];
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { allow: 'GET, HEAD' }).end();
    } else if (path === '/healthz') {
      void answer(response, () => health.live());
    } else if (path === '/readyz') {
      void answer(response, () => health.ready());
    } else if (path === '/metrics' && metrics) {
      metrics(request, response);
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: listen.host, port: listen.port }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(response: ServerResponse, report: () => ReturnType<Health['live']>): Promise<void> {
  const body = await report();
  response.writeHead(body.status === 'ok' ? 200 : 503, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
  });
  response.end(JSON.stringify(body));
}
