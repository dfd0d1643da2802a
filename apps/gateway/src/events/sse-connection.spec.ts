import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SseConnection, type SseLimits } from './sse-connection.js';

const PATIENT: SseLimits = { bufferBytes: 64 * 1024, heartbeatMs: 60_000, stallMs: 60_000, endMs: 60_000 };

let server: Server;
let client: IncomingMessage | undefined;

async function connect(
  limits: SseLimits,
  mayGoOn = async () => true,
): Promise<{ connection: SseConnection; client: IncomingMessage }> {
  const served = new Promise<SseConnection>((resolve) => {
    server = createServer((_, response: ServerResponse) =>
      resolve(new SseConnection(response, limits, { 'x-request-id': 'r' }, mayGoOn)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  client = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ host: '127.0.0.1', port, agent: false }, resolve).on('error', reject);
  });
  client.on('error', () => undefined);
  return { connection: await served, client };
}

afterEach(async () => {
  client?.destroy();
  await new Promise((resolve) => server.close(resolve));
});

const frame = `data: ${'x'.repeat(16 * 1024)}\n\n`;

describe('SseConnection', () => {
  it('is closed at once for a client that left before its stream began', async () => {
    const begun = new Promise<SseConnection>((resolve) => {
      server = createServer((_, response: ServerResponse) => {
        response.once('close', () => resolve(new SseConnection(response, PATIENT, {}, async () => true)));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const request = get({ host: '127.0.0.1', port, agent: false }).on('error', () => undefined);
    server.once('request', () => request.destroy());
    const connection = await begun;
    await connection.whenClosed();
    connection.write(frame);
    connection.end();
  });

  it('drops a client that leaves more unread than the limit', async () => {
    const { connection, client: reader } = await connect(PATIENT);
    reader.pause();
    let closed = false;
    void connection.whenClosed().then(() => {
      closed = true;
    });
    // Sockets buffer some of it; a few megabytes fill them on any machine.
    for (let written = 0; !closed && written < 4_000; written += 1) {
      connection.write(frame);
      if (written % 50 === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await connection.whenClosed();
    expect(closed).toBe(true);
  });

  it('keeps a client that reads, and lets a replay wait for it', async () => {
    const { connection, client: reader } = await connect({ ...PATIENT, bufferBytes: 1024 * 1024 });
    let received = 0;
    reader.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    for (let page = 0; page < 50; page += 1) {
      for (let n = 0; n < 10; n += 1) connection.write(frame);
      await connection.drained();
    }
    connection.end();
    await new Promise((resolve) => reader.once('end', resolve));
    expect(received).toBeGreaterThanOrEqual(500 * frame.length);
  });

  it('sends heartbeats, and ends when the key is no longer good', async () => {
    let good = true;
    const { client: reader } = await connect({ ...PATIENT, heartbeatMs: 10 }, async () => good);
    let text = '';
    reader.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      if (text.includes(': heartbeat\n\n: heartbeat\n\n')) good = false;
    });
    await new Promise((resolve) => reader.once('end', resolve));
    expect(text.startsWith('retry: 1000\n\n: heartbeat')).toBe(true);
    expect(reader.headers).toMatchObject({ 'x-request-id': 'r', 'x-accel-buffering': 'no' });
  });

  it('drops a client that has read nothing for too long', async () => {
    const { connection, client: reader } = await connect({
      ...PATIENT,
      bufferBytes: 64 * 1024 * 1024,
      stallMs: 50,
    });
    reader.pause();
    for (let written = 0; written < 1_000; written += 1) connection.write(frame);
    await connection.whenClosed();
  });

  it('drops a client that does not take the rest of an ended stream', async () => {
    const { connection, client: reader } = await connect({ ...PATIENT, bufferBytes: 64 * 1024 * 1024, endMs: 50 });
    reader.pause();
    for (let written = 0; written < 1_000; written += 1) connection.write(frame);
    connection.end();
    await connection.whenClosed();
  });
});
