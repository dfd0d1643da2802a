import { randomUUID } from 'node:crypto';
import { createTestDatabase, expectNoLeftovers, openEventStream, type TestDatabase } from '@codedock/testkit';
import { Client } from 'pg';
import { everyRow } from '../testing/every-row.js';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

const APP = 'https://app.example.com';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let other: TestTenant;
let client: Client;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new Client({ connectionString: database.url });
  await client.connect();
  gateway = await startTestGateway(database.url, {
    CODEDOCK_CORS_ORIGINS: APP,
    CODEDOCK_SECRETS_KEY: 'ab'.repeat(32),
  });
  tenant = await gateway.tenant('tokens');
  other = await gateway.tenant('others');
});
afterAll(async () => {
  await client.end();
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

async function place(): Promise<{ sessionId: string; runId: string }> {
  const sessionId = (await gateway.send('POST', '/v1/sessions', { key: tenant.key, body: {} })).body.id;
  const { body } = await gateway.send('POST', `/v1/sessions/${sessionId}/runs`, {
    key: tenant.key,
    body: { content: 'x' },
  });
  return { sessionId, runId: body.runId };
}
const create = (body: unknown, key = tenant.key) => gateway.send('POST', '/v1/stream-tokens', { key, body });
const streamOf = async (path: string, headers: Record<string, string> = {}) => {
  const stream = await openEventStream(`${gateway.url}${path}`, { headers });
  if (stream.status === 200) await stream.waitFor(({ event }) => event === 'run.created');
  stream.close();
  await stream.over;
  return { status: stream.status, headers: stream.headers };
};

describe('a stream token', () => {
  it('of a session opens its stream and its runs, one of a run that run alone, and neither anything else', async () => {
    const here = await place();
    const elsewhere = await place();
    const ofSession = (await create({ sessionId: here.sessionId })).body.token;
    const ofRun = (await create({ runId: here.runId })).body.token;
    const may = async (token: string) => {
      const paths = [here, elsewhere].flatMap(({ sessionId, runId }) => [
        `/v1/sessions/${sessionId}/events`,
        `/v1/runs/${runId}/events`,
      ]);
      return Promise.all(paths.map(async (path) => (await streamOf(`${path}?token=${token}`)).status));
    };
    expect(await may(ofSession)).toEqual([200, 200, 401, 401]);
    expect(await may(ofRun)).toEqual([401, 200, 401, 401]);
    for (const path of [
      '/v1/sessions',
      `/v1/sessions/${here.sessionId}`,
      `/v1/sessions/${here.sessionId}/event-log`,
      `/v1/sessions/${here.sessionId}/messages`,
      `/v1/runs/${here.runId}`,
    ]) {
      expect((await gateway.send('GET', `${path}?token=${ofSession}`)).status).toBe(401);
      expect((await gateway.send('GET', path, { key: ofSession })).status).toBe(401);
    }
    // A header says who asks; then the token counts for nothing.
    const both = await gateway.send('GET', `/v1/sessions/${here.sessionId}/events?token=${ofSession}`, {
      headers: { authorization: 'Bearer cdk_wrong' },
    });
    expect(both.status).toBe(401);
  });

  it('begins no stream once it has expired, and one that is open goes on and resumes with a new one', async () => {
    const { sessionId } = await place();
    const { token, expiresAt } = (await create({ sessionId, ttlSeconds: 60 })).body;
    expect(Date.parse(expiresAt)).toBeGreaterThan(Date.now());
    const stream = await openEventStream(`${gateway.url}/v1/sessions/${sessionId}/events?token=${token}`);
    const first = await stream.waitFor(({ event }) => event === 'run.created');
    await client.query("UPDATE stream_tokens SET expires_at = now() - interval '1 second' WHERE session_id = $1", [
      sessionId,
    ]);
    const refused = await gateway.send('GET', `/v1/sessions/${sessionId}/events?token=${token}`);
    expect(refused).toMatchObject({ status: 401, body: { code: 'unauthenticated' } });
    expect(refused.body.detail).toContain('POST /v1/stream-tokens');
    expect(JSON.stringify(refused.body)).not.toContain(token);
    await gateway.store.notices.append({
      tenantId: tenant.id,
      sessionId,
      text: 'still there',
      messageId: randomUUID(),
      eventId: randomUUID(),
    });
    await stream.waitFor(({ event }) => event === 'message.notice');
    stream.close();
    await stream.over;
    const again = (await create({ sessionId })).body.token;
    const resumed = await openEventStream(`${gateway.url}/v1/sessions/${sessionId}/events?token=${again}`, {
      lastEventId: String(first.id),
    });
    await resumed.waitFor(({ event }) => event === 'message.notice');
    expect(resumed.frames.map(({ id }) => Number(id))[0]).toBe(Number(first.id) + 1);
    resumed.close();
    await resumed.over;
  });

  it('is worth nothing once its key is revoked or the session deleted, and only its hash is stored', async () => {
    const { sessionId, runId } = await place();
    const maker = await tenant.newKey(['runs']);
    const { token } = (await create({ sessionId }, maker.key)).body;
    const path = `/v1/sessions/${sessionId}/events?token=${token}`;
    expect((await streamOf(path)).status).toBe(200);
    const { rows } = await client.query<{ row: string }>('SELECT t::text AS row FROM stream_tokens t');
    expect(rows.map(({ row }) => row).join()).not.toContain(token);
    await gateway.store.keys.revoke(tenant.id, maker.id, 'test');
    expect((await streamOf(path)).status).toBe(401);
    const second = (await create({ runId })).body.token;
    expect((await gateway.send('DELETE', `/v1/sessions/${sessionId}?cancel=true`, { key: tenant.key })).status).toBe(
      204,
    );
    expect((await streamOf(`/v1/runs/${runId}/events?token=${second}`)).status).toBe(401);
  });

  it('is made for what the tenant has, by a key that may run', async () => {
    const { sessionId, runId } = await place();
    for (const body of [{ sessionId }, { runId }, { sessionId: randomUUID() }, { runId: randomUUID() }]) {
      expect(await create(body, other.key)).toMatchObject({ status: 404, body: { code: 'not_found' } });
    }
    const admin = await tenant.newKey(['admin']);
    expect((await create({ sessionId }, admin.key)).status).toBe(403);
  });

  it('is asked for twice under an idempotency key and made once, and is in no table', async () => {
    const { sessionId } = await place();
    const headers = { 'idempotency-key': randomUUID() };
    const ask = (body: object) => gateway.send('POST', '/v1/stream-tokens', { key: tenant.key, body, headers });
    // What created nothing is not stored.
    expect((await ask({ sessionId: randomUUID() })).status).toBe(404);
    const first = await ask({ sessionId });
    const second = await ask({ sessionId });
    expect(first).toMatchObject({ status: 201, body: { token: expect.any(String), expiresAt: expect.any(String) } });
    expect([second.status, second.body]).toEqual([201, first.body]);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    const { rows } = await client.query('SELECT 1 FROM stream_tokens WHERE session_id = $1', [sessionId]);
    expect(rows).toHaveLength(1);
    expect((await streamOf(`/v1/sessions/${sessionId}/events?token=${second.body.token}`)).status).toBe(200);
    expect(await everyRow(database.url)).not.toContain(first.body.token);
    expect(await ask({ sessionId, ttlSeconds: 60 })).toMatchObject({
      status: 422,
      body: { code: 'idempotency_mismatch' },
    });
  });

  it('is left out of a replay where no encryption key keeps it', async () => {
    const { sessionId } = await place();
    const bare = await startTestGateway(database.url);
    try {
      const headers = { 'idempotency-key': randomUUID() };
      const ask = () => bare.send('POST', '/v1/stream-tokens', { key: tenant.key, body: { sessionId }, headers });
      const { body: first } = await ask();
      expect(first.token).toEqual(expect.any(String));
      expect((await ask()).body).toEqual({ expiresAt: first.expiresAt });
    } finally {
      await bare.stop();
    }
  });

  it.each([
    [{}, '/sessionId'],
    [{ sessionId: 'x' }, '/sessionId'],
    [{ runId: 5 }, '/runId'],
    [{ sessionId: randomUUID(), runId: randomUUID() }, '/sessionId'],
    [{ sessionId: randomUUID(), ttlSeconds: 9 }, '/ttlSeconds'],
    [{ sessionId: randomUUID(), ttlSeconds: 3_601 }, '/ttlSeconds'],
    [{ sessionId: randomUUID(), scopes: [] }, '/scopes'],
  ])('%j is 422', async (body, at) => {
    const answer = await create(body);
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_request', errors: [{ path: at }] } });
  });

  it.each(['', 'x', 'cdk_stream_', `cdk_stream_${'x'.repeat(43)}`, '&token=y'])('%j opens nothing', async (token) => {
    const { sessionId } = await place();
    expect((await gateway.send('GET', `/v1/sessions/${sessionId}/events?token=${token}`)).status).toBe(401);
  });
});

describe('pages of another origin', () => {
  const preflight = (origin: string, method: string, headers: string) =>
    fetch(`${gateway.url}/v1/sessions`, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': method, 'access-control-request-headers': headers },
    });

  it('may call the API when they are named, with every method and header it takes', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
      const answer = await preflight(APP, method, 'authorization,content-type,idempotency-key,if-match');
      expect(answer.status).toBe(204);
      expect(answer.headers.get('access-control-allow-origin')).toBe(APP);
      expect(answer.headers.get('access-control-allow-methods')).toContain(method);
      expect(answer.headers.get('access-control-allow-headers')).toContain('idempotency-key');
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
    }
    const answer = await gateway.send('GET', '/v1/sessions', { key: tenant.key, headers: { origin: APP } });
    expect(answer.headers.get('access-control-allow-origin')).toBe(APP);
    expect(answer.headers.get('access-control-expose-headers')).toContain('retry-after');
    // What is wrong can be read too.
    const refused = await gateway.send('GET', '/v1/sessions', { headers: { origin: APP } });
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, APP]);
  });

  it('are told nothing when they are not', async () => {
    for (const origin of ['https://evil.example.com', `${APP}.evil.com`, 'http://app.example.com', 'null']) {
      const answer = await preflight(origin, 'POST', 'authorization');
      expect(answer.headers.get('access-control-allow-origin')).not.toBe(origin);
      expect(answer.headers.get('access-control-allow-origin')).not.toBe('*');
    }
  });

  it('follow a stream with a token, as an EventSource does: no header of their own, and resume by Last-Event-ID', async () => {
    const { sessionId } = await place();
    const { token } = (await create({ sessionId })).body;
    const path = `/v1/sessions/${sessionId}/events?token=${token}`;
    const browser = { origin: APP, accept: 'text/event-stream', 'cache-control': 'no-cache' };
    const answer = await streamOf(path, browser);
    expect(answer).toMatchObject({
      status: 200,
      headers: { 'access-control-allow-origin': APP, 'content-type': 'text/event-stream; charset=utf-8' },
    });
    expect(answer.headers['vary']).toContain('Origin');
  });

  it('are all refused as long as none is named', async () => {
    const closed = await startTestGateway(database.url);
    try {
      const answer = await fetch(`${closed.url}/v1/sessions`, {
        headers: { origin: APP, authorization: `Bearer ${tenant.key}` },
      });
      expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, null]);
      const asked = await fetch(`${closed.url}/v1/sessions`, {
        method: 'OPTIONS',
        headers: { origin: APP, 'access-control-request-method': 'POST' },
      });
      expect(asked.ok).toBe(false);
      expect(asked.headers.get('access-control-allow-origin')).toBeNull();
      await asked.text();
    } finally {
      await closed.stop();
    }
  });
});
