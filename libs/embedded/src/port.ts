import { createServer } from 'node:net';

/** A TCP port of 127.0.0.1 that is free now; another process may still take it before it is used. */
export function freeLoopbackPort(): Promise<number> {
  return probe(0);
}

/** Whether `port` of 127.0.0.1 can be listened on now. */
export function isPortFree(port: number): Promise<boolean> {
  return probe(port).then(
    () => true,
    () => false,
  );
}

function probe(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address();
      const bound = typeof address === 'object' && address ? address.port : port;
      server.close(() => resolve(bound));
    });
  });
}
