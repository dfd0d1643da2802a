import { Health } from './health.js';
import { type OperationsServer, startOperationsServer } from './operations-server.js';

const listen = { host: '127.0.0.1', port: 0 };
let server: OperationsServer | undefined;
afterEach(() => server?.close());

async function get(path: string, method = 'GET'): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`http://127.0.0.1:${server?.port}${path}`, { method });
  const text = await response.text();
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text };
}

test('liveness and readiness are answered apart', async () => {
  const health = new Health();
  health.addLiveness('loop', () => true);
  health.addReadiness('database', async () => 'connection refused');
  health.addReadiness('queue', () => {
    throw new Error('no redis://:secret@queue:6379');
  });
  server = await startOperationsServer({ listen, health });
  expect(await get('/healthz')).toEqual({ status: 200, body: { status: 'ok', checks: { loop: 'ok' } } });
  expect(await get('/readyz?verbose')).toEqual({
    status: 503,
    body: {
      status: 'failing',
      checks: { database: 'connection refused', queue: 'no redis://:[redacted]@queue:6379' },
    },
  });
});

test('a draining program is live and not ready', async () => {
  const health = new Health();
  server = await startOperationsServer({ listen, health });
  expect((await get('/readyz')).status).toBe(200);
  health.drain();
  expect(await get('/readyz')).toMatchObject({ status: 503, body: { checks: { drain: 'shutting down' } } });
  expect((await get('/healthz')).status).toBe(200);
});

test('a check without an answer fails in time', async () => {
  const health = new Health();
  health.addReadiness('database', () => new Promise(() => undefined));
  expect(await health.ready()).toEqual({ status: 'failing', checks: { database: 'no answer within 2000 ms' } });
});

test('metrics are served where given, anything else is not found', async () => {
  const health = new Health();
  server = await startOperationsServer({ listen, health, metrics: (_, response) => void response.end('metric 1\n') });
  expect(await get('/metrics')).toEqual({ status: 200, body: 'metric 1\n' });
  expect((await get('/other')).status).toBe(404);
  expect((await get('/healthz', 'POST')).status).toBe(405);
});
