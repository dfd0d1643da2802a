import { randomUUID } from 'node:crypto';
import { expectNoLeftovers, writePlugin } from '@codedock/testkit';
import { type Answer, apiOf } from '../api.js';
import { fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Routes whose parameter is a name that two tenants may both have; what a tenant keeps there has its own test. */
const BY_NAME = /^\/v1\/(agents|memory|plugins)\/\{name\}/;
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

let system: System;
let foreignKey: string;

beforeAll(async () => {
  system = await startSystem({
    gateways: 2,
    plugins: async (root) => {
      await writePlugin(root, 'ask', { mode: 'ask', tools: ['ping'], reason: 'a person must look' });
    },
  });
  foreignKey = await system.createKey({ tenant: 'other' });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await expectNoLeftovers();
});

/** Everything a tenant has, as rows. */
async function rowsOf(sessionId: string): Promise<unknown> {
  const tables = ['runs', 'messages', 'events', 'approvals', 'tool_calls', 'hook_records'];
  const { rows: present } = await system.db.query<{ table_name: string }>(
    `SELECT table_name FROM information_schema.columns WHERE column_name = 'session_id' AND table_schema = 'public'
        AND table_name IN (SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE')`,
  );
  expect(present.map(({ table_name }) => table_name)).toEqual(expect.arrayContaining(tables.slice(0, 4)));
  const all: Record<string, unknown> = {};
  for (const { table_name } of present) {
    const { rows } = await system.db.query(
      `SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)::text), '[]') AS rows FROM "${table_name}" t WHERE session_id = $1`,
      [sessionId],
    );
    all[table_name] = rows[0].rows;
  }
  const { rows } = await system.db.query('SELECT to_jsonb(s) AS session FROM sessions s WHERE id = $1', [sessionId]);
  return { ...all, session: rows[0].session };
}

describe("another tenant's key", () => {
  let sessionId: string;
  let runId: string;
  let approvalId: string;
  let callId: string;
  let webhookId: string;
  let paths: OpenApi['paths'];

  beforeAll(async () => {
    sessionId = await system.createSession({ title: 'private' });
    const run = await system.startRun(sessionId, { content: fakeScript({ toolCalls: [{ name: 'ping' }] }) });
    runId = run.id;
    const waiting = await system.waitForRun(runId, ({ status }) => status === 'waiting_approval');
    approvalId = (waiting as RunView & { approvalId: string }).approvalId;
    const approval = await system.api<{ calls: { callId: string }[] }>('GET', `/v1/approvals/${approvalId}`);
    callId = approval.body.calls[0]?.callId as string;
    const webhook = await system.api<{ id: string }>('POST', '/v1/webhooks', {
      url: 'https://hooks.example.com/private',
    });
    webhookId = webhook.body.id;
    paths = (await system.api<OpenApi>('GET', '/openapi.json', undefined, { key: null })).body.paths;
  });

  const bodies = (): Record<string, unknown> => ({
    'POST /v1/sessions/{sessionId}/runs': { content: 'mine now' },
    'POST /v1/tool-calls/{callId}/resolve': { outcome: 'did_not' },
    'POST /v1/approvals/{approvalId}/decisions': { decisions: [{ callId, decision: 'approve' }] },
  });

  function requests(): { name: string; method: string; path: string }[] {
    return Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations)
        .filter((method) => METHODS.includes(method))
        .map((method) => ({ name: `${method.toUpperCase()} ${path}`, method: method.toUpperCase(), path })),
    );
  }

  const filled = (path: string, ids: Readonly<Record<string, string>>) =>
    path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => {
      const id = ids[parameter];
      if (id === undefined) throw new Error(`${path}: give this test an id for {${parameter}}`);
      return id;
    });

  /** The problem without what differs from request to request. */
  const shape = ({ status, headers, body }: Answer) => {
    const { instance, detail, ...rest } = body ?? {};
    const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
    return { status, type: headers.get('content-type'), detail: String(detail).replaceAll(uuid, '<id>'), ...rest };
  };

  it('answers 404 on every route with an id, as for an id that does not exist, and changes nothing', async () => {
    const before = await rowsOf(sessionId);
    const keys = await system.api<{ items: { id: string }[] }>('GET', '/v1/keys');
    const own = { sessionId, runId, approvalId, callId, webhookId, keyId: keys.body.items[0]?.id as string };
    const walked: string[] = [];
    for (const { name, method, path } of requests()) {
      if (!path.includes('{') || BY_NAME.test(path)) continue;
      walked.push(name);
      const unknown = Object.fromEntries(Object.keys(own).map((parameter) => [parameter, randomUUID()]));
      const body = method === 'GET' ? undefined : (bodies()[name] ?? {});
      const ask = (ids: Readonly<Record<string, string>>) =>
        system.api(method, filled(path, ids), body, { key: foreignKey });
      const [foreign, missing] = [await ask(own), await ask(unknown)];
      expect({ name, ...shape(foreign) }).toMatchObject({ name, status: 404, code: 'not_found' });
      expect({ name, ...shape(foreign) }).toEqual({ name, ...shape(missing) });
      expect(JSON.stringify(foreign.body)).not.toContain('private');
    }
    expect(walked).toEqual(
      expect.arrayContaining([
        'GET /v1/sessions/{sessionId}',
        'POST /v1/sessions/{sessionId}/runs',
        'POST /v1/sessions/{sessionId}/archive',
        'DELETE /v1/sessions/{sessionId}',
        'POST /v1/keys/{keyId}/rotate',
        'GET /v1/sessions/{sessionId}/events',
        'GET /v1/runs/{runId}/events',
        'GET /v1/runs/{runId}/trace',
        'POST /v1/runs/{runId}/cancel',
        'POST /v1/approvals/{approvalId}/decisions',
      ]),
    );
    expect(await rowsOf(sessionId)).toEqual(before);
    // The same requests are no 404 for the owner: the ids were right.
    for (const path of [
      '/v1/sessions/{sessionId}',
      '/v1/runs/{runId}',
      '/v1/approvals/{approvalId}',
      '/v1/webhooks/{webhookId}',
    ]) {
      expect((await system.api('GET', filled(path, own))).status).toBe(200);
    }
  });

  it('sees nothing in any list, also where the list is asked for by a foreign id', async () => {
    for (const path of [
      '/v1/sessions',
      '/v1/webhooks',
      '/v1/approvals',
      `/v1/approvals?sessionId=${sessionId}&runId=${runId}`,
    ]) {
      const { body } = await system.api<{ items: unknown[] }>('GET', path, undefined, { key: foreignKey });
      expect({ path, items: body.items }).toEqual({ path, items: [] });
      expect((await system.api<{ items: unknown[] }>('GET', path)).body.items.length).toBeGreaterThan(0);
    }
  });

  it('has plugin settings of its own', async () => {
    const path = '/v1/plugins/ask/settings';
    const set = await system.api('PUT', `${path}/limit`, { value: 'private', scope: 'tenant' });
    expect(set.status).toBe(200);
    const list = async (key?: string) =>
      (await system.api<{ items: { key: string }[] }>('GET', path, undefined, key === undefined ? {} : { key })).body;
    expect((await list()).items).toMatchObject([{ key: 'limit', value: 'private' }]);
    expect((await list(foreignKey)).items).toEqual([]);
    await system.api('DELETE', `${path}/limit?scope=tenant`, undefined, { key: foreignKey });
    expect((await list()).items).toHaveLength(1);
  });

  it('has agent profiles and a memory of its own', async () => {
    const model = { provider: 'fake', name: 'fake' };
    expect((await system.api('POST', '/v1/agents', { name: 'private', model })).status).toBe(201);
    const text = { scope: 'tenant', text: 'private' };
    expect((await system.api('PUT', '/v1/memory/private', text)).status).toBe(200);
    for (const [method, path] of [
      ['GET', '/v1/agents/private'],
      ['PUT', '/v1/agents/private'],
      ['DELETE', '/v1/agents/private'],
      ['GET', '/v1/memory/private?scope=tenant'],
      ['DELETE', '/v1/memory/private?scope=tenant'],
    ] as const) {
      const body = method === 'PUT' ? { model } : undefined;
      const headers = { 'if-match': '*' };
      const foreign = await system.api(method, path, body, { key: foreignKey, headers });
      expect({ method, path, status: foreign.status }).toEqual({ method, path, status: 404 });
    }
    expect((await system.api('GET', '/v1/agents/private')).status).toBe(200);
    expect((await system.api('GET', '/v1/memory/private?scope=tenant')).status).toBe(200);
  });

  it('has idempotency keys of its own', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const mine = await system.api<{ id: string }>('POST', '/v1/sessions', {}, { headers });
    const theirs = await system.api<{ id: string }>('POST', '/v1/sessions', {}, { headers, key: foreignKey });
    expect([mine.status, theirs.status]).toEqual([201, 201]);
    expect(theirs.body.id).not.toBe(mine.body.id);
  });
});

describe('an idempotency key', () => {
  it('sent 50 times at once over two gateways starts one run, and every answer is the same', async () => {
    const sessionId = await system.createSession();
    const headers = { 'idempotency-key': randomUUID() };
    const apis = system.urls.map((url) => apiOf(url, system.key));
    const send = (n: number, content = 'once') =>
      (apis[n % apis.length] as System['api'])<{ runId: string }>(
        'POST',
        `/v1/sessions/${sessionId}/runs`,
        { content, onBusy: 'enqueue' },
        { headers },
      );
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => send(n)));
    const refused = answers.filter(({ status }) => status !== 201).map(({ status, body }) => ({ status, ...body }));
    expect(refused).toEqual([]);
    const [first] = answers;
    for (const { body } of answers) expect(body).toEqual(first?.body);
    const runs = await system.api<{ items: RunView[] }>('GET', `/v1/sessions/${sessionId}/runs`);
    expect(runs.body.items.map(({ id }) => id)).toEqual([first?.body.runId]);

    await system.waitForEnd(first?.body.runId as string);
    const later = await send(1);
    expect(later).toMatchObject({ status: 201, body: first?.body as object });
    expect(later.headers.get('idempotency-replayed')).toBe('true');
    const other = await send(0, 'something else');
    expect(other).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
    expect((await system.events(sessionId)).filter(({ type }) => type === 'run.created')).toHaveLength(1);
  });
});
