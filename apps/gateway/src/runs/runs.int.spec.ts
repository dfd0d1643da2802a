import { createHash } from 'node:crypto';
import { request } from 'node:http';
import { canonicalJson } from '@codedock/domain';
import { createTestDatabase, expectNoLeftovers, openEventStream, type TestDatabase } from '@codedock/testkit';
import { SessionFeeds } from '../events/session-feeds.js';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url);
  tenant = await gateway.tenant('runs');
});

afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  gateway.send('POST', path, { key: tenant.key, body, headers });
const get = (path: string) => gateway.send('GET', path, { key: tenant.key });

async function newSession(body: object = {}): Promise<string> {
  const answer = await post('/v1/sessions', body);
  expect(answer.status).toBe(201);
  return answer.body.id;
}

describe('sessions', () => {
  it('are created, read, listed in pages and archived', async () => {
    const other = await gateway.tenant('pages');
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      const created = await gateway.send('POST', '/v1/sessions', {
        key: other.key,
        body: { title: `s${n}`, user: 'ann', metadata: { n } },
      });
      expect(created.body).toMatchObject({ title: `s${n}`, user: 'ann', metadata: { n }, status: 'open', lastSeq: 0 });
      ids.unshift(created.body.id);
    }
    const listed: string[] = [];
    let cursor: string | null = null;
    do {
      const path: string = `/v1/sessions?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`;
      const page = await gateway.send('GET', path, { key: other.key });
      listed.push(...page.body.items.map((one: { id: string }) => one.id));
      cursor = page.body.nextCursor;
    } while (cursor !== null);
    expect(listed).toEqual(ids);
    const path = `/v1/sessions/${ids[0]}`;
    expect((await gateway.send('POST', `${path}/archive`, { key: other.key })).body.status).toBe('archived');
    expect((await gateway.send('POST', `${path}/archive`, { key: other.key })).status).toBe(200);
    expect((await gateway.send('GET', path, { key: other.key })).body.status).toBe('archived');
    const input = await gateway.send('POST', `${path}/runs`, { key: other.key, body: { content: 'x' } });
    expect(input).toMatchObject({ status: 409, body: { code: 'session_archived' } });
  });
});

describe('a run', () => {
  it('is created with its message and event, and is read by id', async () => {
    const session = await newSession({ user: 'ann' });
    const { status, body } = await post(`/v1/sessions/${session}/runs`, { content: 'hello', metadata: { ticket: 7 } });
    expect({ status, body }).toMatchObject({
      status: 201,
      body: {
        handled: false,
        run: {
          sessionId: session,
          status: 'queued',
          agent: 'default',
          metadata: { ticket: 7 },
          createdBy: tenant.keyId,
        },
      },
    });
    expect(body.run.id).toBe(body.runId);
    expect((await get(`/v1/runs/${body.runId}`)).body).toMatchObject({ id: body.runId, lastSeq: 1 });
    expect((await get(`/v1/sessions/${session}/messages`)).body).toMatchObject({
      items: [{ role: 'user', content: { text: 'hello' }, runId: body.runId, eventSeq: 1 }],
      nextAfter: null,
    });
    expect((await get(`/v1/sessions/${session}/event-log`)).body).toMatchObject({
      items: [{ seq: 1, type: 'run.created', runId: body.runId, payload: { status: 'queued' } }],
    });
    expect((await get(`/v1/sessions/${session}/runs`)).body.items).toMatchObject([{ id: body.runId }]);
  });

  it('is refused while another one is active, and cancelled by the answer itself where no runner is', async () => {
    const session = await newSession();
    const first = await post(`/v1/sessions/${session}/runs`, { content: 'one' });
    expect(await post(`/v1/sessions/${session}/runs`, { content: 'two' })).toMatchObject({
      status: 409,
      body: { code: 'session_busy' },
    });
    expect(await post(`/v1/sessions/${session}/archive`, {})).toMatchObject({
      status: 409,
      body: { code: 'session_busy' },
    });
    const cancelled = await post(`/v1/runs/${first.body.runId}/cancel`, {});
    expect(cancelled).toMatchObject({ status: 200, body: { status: 'cancelled', stopReason: 'cancelled' } });
    expect((await post(`/v1/runs/${first.body.runId}/cancel`, {})).body.status).toBe('cancelled');
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'two' })).status).toBe(201);
  });

  it('has an empty waterfall and audit without plugins', async () => {
    const session = await newSession();
    const { body } = await post(`/v1/sessions/${session}/runs`, { content: 'x' });
    expect((await get(`/v1/runs/${body.runId}/trace`)).body).toMatchObject({ runId: body.runId, gates: [] });
    expect((await get(`/v1/runs/${body.runId}/hooks`)).body).toEqual({ items: [], nextCursor: null });
    expect((await get(`/v1/sessions/${session}/hooks`)).body).toEqual({ items: [], nextCursor: null });
  });

  it('shows its first event by push, without the sweep', async () => {
    jest.spyOn(SessionFeeds.prototype, 'sweep').mockResolvedValue();
    const session = await newSession();
    const stream = await openEventStream(`${gateway.url}/v1/sessions/${session}/events`, {
      headers: { authorization: `Bearer ${tenant.key}` },
    });
    for (let n = 0; n < 3; n += 1) {
      const { body } = await post(`/v1/sessions/${session}/runs`, { content: 'x' });
      await stream.waitFor((one) => one.event === 'run.created' && one.data.includes(body.runId));
      await post(`/v1/runs/${body.runId}/cancel`, {});
    }
    stream.close();
    await stream.over;
  });
});

describe('an Idempotency-Key', () => {
  it('makes one run of 100 concurrent requests, and answers all of them alike', async () => {
    const session = await newSession();
    const answers = await Promise.all(
      Array.from({ length: 100 }, () =>
        post(`/v1/sessions/${session}/runs`, { content: 'x' }, { 'idempotency-key': 'one' }),
      ),
    );
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([201]));
    expect(new Set(answers.map((answer) => JSON.stringify(sorted(answer.body)))).size).toBe(1);
    expect(answers.filter((answer) => answer.headers.get('idempotency-replayed') === 'true')).toHaveLength(99);
    expect((await get(`/v1/sessions/${session}/runs`)).body.items).toHaveLength(1);
  });

  it('replays the creation of a session', async () => {
    const first = await post('/v1/sessions', { title: 'a' }, { 'idempotency-key': 'session' });
    const again = await post('/v1/sessions', { title: 'a' }, { 'idempotency-key': 'session' });
    expect(sorted(again.body)).toEqual(sorted(first.body));
    expect(again.status).toBe(201);
  });

  it('is refused for another request, and is independent between tenants and routes', async () => {
    const session = await newSession();
    await post('/v1/sessions', { title: 'a' }, { 'idempotency-key': 'shared' });
    const other = await post('/v1/sessions', { title: 'b' }, { 'idempotency-key': 'shared' });
    expect(other).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'x' }, { 'idempotency-key': 'shared' })).status).toBe(
      201,
    );
    const stranger = await gateway.tenant('stranger');
    const theirs = await gateway.send('POST', '/v1/sessions', {
      key: stranger.key,
      body: { title: 'c' },
      headers: { 'idempotency-key': 'shared' },
    });
    expect(theirs.status).toBe(201);
  });

  it('is free again when nothing was created', async () => {
    const session = await newSession();
    const busy = await post(`/v1/sessions/${session}/runs`, { content: 'one' });
    const key = { 'idempotency-key': 'retry' };
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'two' }, key)).status).toBe(409);
    await post(`/v1/runs/${busy.body.runId}/cancel`, {});
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'two' }, key)).status).toBe(201);
    const invalid = await post(`/v1/sessions/${session}/runs`, { content: '' }, { 'idempotency-key': 'invalid' });
    expect(invalid.status).toBe(422);
    await post(`/v1/sessions/${session}/runs`, { content: 'three', onBusy: 'enqueue' });
    const valid = await post(
      `/v1/sessions/${session}/runs`,
      { content: 'four', onBusy: 'enqueue' },
      { 'idempotency-key': 'invalid' },
    );
    expect(valid.status).toBe(201);
  });

  it('whose process died before it created anything is free again when its claim is over', async () => {
    const session = await newSession();
    const path = `/v1/sessions/${session}/runs`;
    const claim = {
      tenantId: tenant.id,
      route: 'POST /v1/sessions/:sessionId/runs',
      key: 'died-before',
      bodyDigest: 'of whatever it was',
      ownerToken: 'the dead process',
      ttlMs: 0,
    };
    expect(await gateway.store.idempotency.claim(claim)).toEqual({ kind: 'claimed' });
    const answer = await post(path, { content: 'x' }, { 'idempotency-key': 'died-before' });
    expect(answer.status).toBe(201);
    expect(answer.headers.get('idempotency-replayed')).toBeNull();
    expect((await get(path)).body.items).toHaveLength(1);
  });

  it('whose answer was lost on its way gets the same run again', async () => {
    const session = await newSession();
    const path = `/v1/sessions/${session}/runs`;
    const headers = {
      authorization: `Bearer ${tenant.key}`,
      'content-type': 'application/json',
      'idempotency-key': 'lost-answer',
    };
    const body = JSON.stringify({ content: 'x' });
    const { hostname, port } = new URL(gateway.url);
    // The request arrives whole, and nobody is there for the answer.
    await new Promise<void>((resolve) => {
      const sent = request({ hostname, port, path, method: 'POST', headers, agent: false });
      sent.on('error', () => resolve());
      sent.end(body, () => setImmediate(() => sent.destroy()));
      sent.on('close', () => resolve());
    });
    const [first, second] = [
      await post(path, { content: 'x' }, { 'idempotency-key': 'lost-answer' }),
      await post(path, { content: 'x' }, { 'idempotency-key': 'lost-answer' }),
    ];
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(sorted(second.body)).toEqual(sorted(first.body));
    expect((await get(path)).body.items.map(({ id }: { id: string }) => id)).toEqual([first.body.runId]);
  });

  it('waits for a first request elsewhere, then says when to come again', async () => {
    const session = await newSession();
    const path = `/v1/sessions/${session}/runs`;
    const claim = {
      tenantId: tenant.id,
      route: 'POST /v1/sessions/:sessionId/runs',
      key: 'elsewhere',
      bodyDigest: createHash('sha256')
        .update(canonicalJson({ path, body: { content: 'x' } }))
        .digest('hex'),
      ownerToken: 'another process',
      ttlMs: 20_000,
    };
    expect(await gateway.store.idempotency.claim(claim)).toEqual({ kind: 'claimed' });
    const began = performance.now();
    const answer = await post(path, { content: 'x' }, { 'idempotency-key': 'elsewhere' });
    expect(answer).toMatchObject({ status: 409, body: { code: 'idempotency_in_progress' } });
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(performance.now() - began).toBeGreaterThan(2_000);
    await gateway.store.idempotency.release(claim);
    expect((await post(path, { content: 'x' }, { 'idempotency-key': 'elsewhere' })).status).toBe(201);
  });

  it.each(['', 'with space', 'ü', 'x'.repeat(256)])('%j is refused', async (key) => {
    const answer = await post('/v1/sessions', {}, { 'idempotency-key': key });
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ path: 'Idempotency-Key' }] } });
  });
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, child]) => [key, sorted(child)]),
  );
}
