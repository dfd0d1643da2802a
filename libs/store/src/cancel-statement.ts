import { connect } from 'node:net';
import type pg from 'pg';

/** What a connection knows of its server process. */
interface Backend {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly host: string;
  readonly port: number;
}

/** Of the protocol: "end what this process is at". */
const CANCEL_REQUEST = 80_877_102;
const BYTES = 16;
const TIMEOUT_MS = 5_000;

/**
 * Asks the server to end the statement that a connection is at, and does not wait for it. A server process that waits for a
 * lock does not see that its client is gone: it would keep its place among the server's connections until it has the lock,
 * and then do what nobody waits for any more. Where the request does not get through, that is what happens.
 */
export function cancelStatement(client: pg.PoolClient): void {
  const { processID, secretKey, host, port } = client as unknown as Backend;
  if (processID === null || secretKey === null) return;
  const request = Buffer.alloc(BYTES);
  for (const [index, word] of [BYTES, CANCEL_REQUEST, processID, secretKey].entries()) {
    request.writeInt32BE(word, index * 4);
  }
  const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
  socket.on('error', () => undefined);
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  // The server answers by closing.
  socket.resume();
  socket.end(request);
  socket.unref();
}
