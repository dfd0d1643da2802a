import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { createTestDatabase, eventually, openEventStream, type TestDatabase } from '@codedock/testkit';
import { startTestGateway, type TestAnswer, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

/** No runner takes anything: what is queued stays queued. */
const LIMITS = {
  CODEDOCK_MAX_PENDING_PER_SESSION: '2',
  CODEDOCK_MAX_PENDING_PER_TENANT: '3',
  CODEDOCK_MAX_QUEUED_RUNS: '6',
  CODEDOCK_MAX_REQUESTS_IN_FLIGHT: '3',
  CODEDOCK_MAX_EVENT_STREAMS: '2',
};

let database: TestDatabase;
let gateway: TestGateway;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url, LIMITS);
});
afterAll(async () => {
  await gateway?.stop();
  await database?.drop();
});

const session = async ({ key }: TestTenant): Promise<string> => {
  const answer = await gateway.send('POST', '/v1/sessions', { key, body: {} });
  expect(answer.status).toBe(201);
  return answer.body.id;
};
const enqueue = ({ key }: TestTenant, sessionId: string, headers: Record<string, string> = {}) =>
  gateway.send('POST', `/v1/sessions/${sessionId}/runs`, {
    key,
    headers,
    body: { content: 'hello', onBusy: 'enqueue' },
  });

function expectRefused(answer: TestAnswer, words: string): void {
  expect(answer).toMatchObject({ status: 429, body: { code: 'rate_limited', status: 429 } });
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect(answer.body.detail).toContain(words);
}

describe('runs that would wait', () => {
  it('are bounded for each session and for each tenant; what was refused is created under the same key later', async () => {
    const tenant = await gateway.tenant('waiting');
    const first = await session(tenant);
    const states = [];
    for (let n = 0; n < 3; n += 1) states.push((await enqueue(tenant, first)).body.run.status);
    expect(states).toEqual(['queued', 'pending', 'pending']);
    const key = { 'idempotency-key': randomUUID() };
    expectRefused(await enqueue(tenant, first, key), 'as many pending runs');
    const second = await session(tenant);
    await enqueue(tenant, second);
    expect((await enqueue(tenant, second)).body.run.status).toBe('pending');
    expectRefused(await enqueue(tenant, second), 'The tenant has as many pending runs');

    const { body } = await gateway.send('GET', `/v1/sessions/${first}/runs?status=pending`, { key: tenant.key });
    await gateway.send('POST', `/v1/runs/${body.items[0].id}/cancel`, { key: tenant.key });
    expect(await enqueue(tenant, first, key)).toMatchObject({ status: 201, body: { run: { status: 'pending' } } });

    const other = await gateway.tenant('other');
    const theirs = await session(other);
    expect((await enqueue(other, theirs)).status).toBe(201);
    expect((await enqueue(other, theirs)).body.run.status).toBe('pending');
  });

  it('are not taken at all while the installation’s queue is full', async () => {
    const tenant = await gateway.tenant('queueing');
    const answers: TestAnswer[] = [];
    for (let n = 0; n < 6; n += 1) answers.push(await enqueue(tenant, await session(tenant)));
    const last = answers.at(-1) as TestAnswer;
    expectRefused(last, 'As many runs are queued as may be (6)');
    const { body } = await gateway.send('GET', '/v1/sessions', { key: tenant.key });
    expect(body.items.length).toBe(6);
    expect(answers[0]?.status).toBe(201);
  });
});

describe('requests of a tenant', () => {
  it('are answered at its own rate; others and the probes do not notice', async () => {
    const slow = await gateway.tenant('slow');
    const quick = await gateway.tenant('quick');
    await gateway.store.tenants.setLimits(slow.id, { requestsPerSecond: 1 });
    const ask = (key?: string) => (path: string) => gateway.send('GET', path, key === undefined ? {} : { key });
    const thirty = (path: string, key?: string) => Promise.all(Array.from({ length: 30 }, () => ask(key)(path)));
    const answers = await thirty('/v1/sessions', slow.key);
    expect(answers.map(({ status }) => status)).toContain(200);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) expectRefused(answer, 'more than 1 requests a second');
    expect(new Set((await thirty('/v1/sessions', quick.key)).map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set((await thirty('/healthz')).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('are counted at that rate too where a stream token stands for the key', async () => {
    const slow = await gateway.tenant('slow-streams');
    const sessionId = await session(slow);
    const { token } = (await gateway.send('POST', '/v1/stream-tokens', { key: slow.key, body: { sessionId } })).body;
    await gateway.store.tenants.setLimits(slow.id, { requestsPerSecond: 1 });
    // Behind the newest event, so that no stream begins.
    const ask = () => gateway.send('GET', `/v1/sessions/${sessionId}/events?after=1000&token=${token}`);
    const answers = await Promise.all(Array.from({ length: 30 }, ask));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) expectRefused(answer, 'more than 1 requests a second');
  });
});

describe('what a gateway holds at a time', () => {
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  it('are so many requests with a body, counted before the key is looked at and until they are answered', async () => {
    const tenant = await gateway.tenant('slow-bodies');
    const { hostname, port } = new URL(gateway.url);
    for (let n = 0; n < 3; n += 1) {
      const socket = connect({ host: hostname, port: Number(port) });
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.write(
        'POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n' +
          `authorization: Bearer ${tenant.key}\r\n\r\n{`,
      );
    }
    const create = () => gateway.send('POST', '/v1/sessions', { key: tenant.key, body: {} });
    await eventually(async () => (await create()).status === 429);
    expectRefused(await create(), 'as many requests as it can hold');
    expect((await gateway.send('GET', '/v1/sessions', { key: tenant.key })).status).toBe(200);
    expect((await gateway.send('GET', '/healthz')).status).toBe(200);
    for (const socket of sockets.splice(0)) socket.destroy();
    await eventually(async () => (await create()).status === 201);
  });

  it('are so many event streams', async () => {
    const tenant = await gateway.tenant('streams');
    const path = `/v1/sessions/${await session(tenant)}/events`;
    const open = () => openEventStream(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${tenant.key}` } });
    const streams = [await open(), await open()];
    expectRefused(await gateway.send('GET', path, { key: tenant.key }), 'as many event streams open as it may (2)');
    for (const stream of streams) stream.close();
    const again = await eventually(async () => {
      const stream = await open();
      if (stream.status !== 200) throw new Error(`it is ${stream.status}`);
      return stream;
    });
    again.close();
  });
});
