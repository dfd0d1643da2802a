import { randomInt } from 'node:crypto';
import { createServer, type ListenOptions, type Server } from 'node:net';

/**
 * Ports below those that systems give to outgoing connections and to port 0 (from 32768 on Linux, from 49152 elsewhere):
 * none of them becomes another's between being chosen and being listened on, nor while a killed server is away.
 */
const FIRST = 15_000;
const LAST = 32_767;
const TRIES = 200;

/** Held until this process ends. */
const reservations = new Map<number, Server | undefined>();

/** A TCP port of 127.0.0.1 that is free, and no other process that asks here gets it while this one lives. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const port = randomInt(FIRST, LAST + 1);
    if (reservations.has(port)) continue;
    reservations.set(port, undefined);
    const reservation = await reserve(port);
    if (reservation === 'taken') continue;
    reservations.set(port, reservation);
    const probe = await listen({ host: '127.0.0.1', port, exclusive: true });
    if (probe === undefined) continue;
    await new Promise((resolve) => probe.close(resolve));
    return port;
  }
  throw new Error(`No port from ${FIRST} to ${LAST} of 127.0.0.1 is free after ${TRIES} tries.`);
}

/** Test processes run side by side: a name in Linux's abstract namespace is one's alone, and goes with its process. */
async function reserve(port: number): Promise<Server | undefined | 'taken'> {
  if (process.platform !== 'linux') return undefined;
  const server = await listen({ path: `\0codedock-test-port-${port}` });
  server?.unref();
  return server ?? 'taken';
}

/** Undefined when that address is in use. */
function listen(options: ListenOptions): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' || error.code === 'EACCES' ? resolve(undefined) : reject(error),
    );
    server.listen(options, () => resolve(server));
  });
}
