import { connect } from 'node:net';
import { createTestDatabase, expectNoLeftovers, type TestDatabase } from '@codedock/testkit';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let own: TestTenant;
let other: TestTenant;
let sessionId: string;
let runId: string;

const NOBODY = '00000000-0000-7000-8000-000000000000';

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url);
  own = await gateway.tenant('own');
  other = await gateway.tenant('other');
  sessionId = (await gateway.send('POST', '/v1/sessions', { key: own.key, body: {} })).body.id;
  runId = (await gateway.send('POST', `/v1/sessions/${sessionId}/runs`, { key: own.key, body: { content: 'hello' } }))
    .body.runId;
});

afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

interface TableRoute {
  readonly method: string;
  readonly path: string;
  readonly scopes: readonly string[];
  readonly body: boolean;
  readonly query: boolean;
}

/** All routes, from the document the gateway makes of them: a new route is in these tables by being declared. */
async function routes(): Promise<TableRoute[]> {
  const { body: document } = await gateway.send('GET', '/openapi.json');
  return Object.entries(document.paths as Record<string, Record<string, never>>).flatMap(([path, operations]) =>
    Object.entries(
      operations as Record<
        string,
        { security: { key: string[] }[]; requestBody?: object; parameters: { in: string }[] }
      >,
    ).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      scopes: operation.security[0]?.key ?? [],
      body: operation.requestBody !== undefined,
      query: operation.parameters.some((parameter) => parameter.in === 'query'),
    })),
  );
}

function filled(path: string, ids: { session?: string; run?: string; approval?: string } = {}): string {
  return path
    .replace('{sessionId}', ids.session ?? sessionId)
    .replace('{runId}', ids.run ?? runId)
    .replace('{approvalId}', ids.approval ?? NOBODY)
    .replace(/\{(callId|webhookId|keyId)\}/, NOBODY)
    .replace('{name}', 'default');
}

function expectProblem(
  answer: { status: number; headers: Headers; body: Record<string, unknown> },
  status: number,
  code: string,
) {
  expect(answer).toMatchObject({ status, body: { status, code, type: `urn:codedock:problem:${code}` } });
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  for (const member of ['title', 'detail', 'instance']) expect(typeof answer.body[member]).toBe('string');
}

async function countRows(): Promise<string> {
  const sessions = await gateway.store.sessions.list({ tenantId: own.id, limit: 100 });
  const runs = await gateway.store.runs.list({ tenantId: own.id, limit: 100 });
  return JSON.stringify([sessions.length, runs.length, await gateway.store.plugins.desired()]);
}

describe('every route × key', () => {
  it('is refused without a key, with an unknown, expired or revoked one, with 401', async () => {
    const expired = await own.newKey(['runs', 'approvals', 'admin'], {
      expiresAt: new Date(Date.now() - 1_000).toISOString(),
    });
    const revoked = await own.newKey(['runs', 'approvals', 'admin']);
    await gateway.store.keys.revoke(own.id, revoked.id, 'test');
    for (const { method, path, scopes } of await routes()) {
      if (scopes.length === 0) continue;
      const headers: Record<string, string>[] = [
        {},
        { authorization: 'Bearer cdk_unknown' },
        { authorization: `Bearer ${expired.key}` },
        { authorization: `Bearer ${revoked.key}` },
        { authorization: `Basic ${own.key}` },
        { authorization: own.key },
      ];
      for (const header of headers) {
        const answer = await gateway.send(method, filled(path), { headers: header });
        expectProblem(answer, 401, 'unauthenticated');
        expect(answer.headers.get('www-authenticate')).toContain('Bearer');
      }
    }
  });

  it('is refused to a key without its scope, with 403', async () => {
    const keys = new Map<string, string>();
    for (const scope of ['runs', 'approvals', 'admin'] as const) keys.set(scope, (await own.newKey([scope])).key);
    for (const { method, path, scopes } of await routes()) {
      if (scopes.length === 0) continue;
      for (const [scope, key] of keys) {
        if (scopes.includes(scope)) continue;
        expectProblem(await gateway.send(method, filled(path), { key }), 403, 'forbidden');
      }
    }
  });

  it("answers another tenant's ids exactly as ids that do not exist, with 404", async () => {
    const bodies: Record<string, unknown> = {
      '/v1/sessions/{sessionId}/runs': { content: 'x' },
      '/v1/approvals/{approvalId}/decisions': { decisions: [{ callId: NOBODY, decision: 'approve' }] },
      '/v1/tool-calls/{callId}/resolve': { outcome: 'did_not' },
    };
    const before = await countRows();
    for (const { method, path } of await routes()) {
      if (!path.includes('Id}')) continue;
      const body = method === 'POST' ? (bodies[path] ?? {}) : undefined;
      const foreign = await gateway.send(method, filled(path), {
        key: other.key,
        ...(body === undefined ? {} : { body }),
      });
      const missing = await gateway.send(method, filled(path, { session: NOBODY, run: NOBODY }), {
        key: other.key,
        ...(body === undefined ? {} : { body }),
      });
      const malformed = await gateway.send(method, filled(path, { session: 'x', run: 'x', approval: 'x' }), {
        key: other.key,
        ...(body === undefined ? {} : { body }),
      });
      for (const answer of [foreign, missing, malformed]) expectProblem(answer, 404, 'not_found');
      expect(Object.keys(foreign.body)).toEqual(Object.keys(missing.body));
      expect(Object.keys(malformed.body)).toEqual(Object.keys(missing.body));
    }
    expect(await countRows()).toBe(before);
  });
});

describe('every route × bad input', () => {
  it('answers a 4xx problem that names the path, and writes nothing', async () => {
    const before = await countRows();
    const deep = `{"content":"x","metadata":${'{"a":'.repeat(70)}1${'}'.repeat(70)}}`;
    const raws: [string, number, string, string?][] = [
      ['{"content":', 400, 'malformed_json'],
      ['nonsense', 400, 'malformed_json'],
      ['[]', 422, 'invalid_request', ''],
      ['null', 422, 'invalid_request', ''],
      ['{"nobody":1}', 422, 'invalid_request', '/nobody'],
      ['{"__proto__":{"a":1}}', 422, 'invalid_request', '/__proto__'],
      ['{"constructor":{"prototype":{}}}', 422, 'invalid_request', '/constructor'],
      ['{"a":"\\u0000"}', 422, 'invalid_request', '/a'],
      ['{"a":"\\ud800"}', 422, 'invalid_request', '/a'],
      ['{"a":1e999}', 422, 'invalid_request', '/a'],
      [deep, 422, 'invalid_request'],
    ];
    for (const { method, path } of await routes()) {
      if (method !== 'POST' && method !== 'PUT') continue;
      for (const [raw, status, code, at] of raws) {
        const answer = await gateway.send(method, filled(path, { approval: sessionId }), { key: own.key, raw });
        expectProblem(answer, status, code);
        if (at !== undefined) expect(answer.body.errors.map((error: { path: string }) => error.path)).toContain(at);
        if (code === 'invalid_request') expect(answer.body.errors.length).toBeGreaterThan(0);
      }
      const big = await gateway.send(method, filled(path), {
        key: own.key,
        raw: `{"content":"${'x'.repeat(1024 * 1024)}"}`,
      });
      expectProblem(big, 413, 'too_large');
      const text = await gateway.send(method, filled(path), {
        key: own.key,
        raw: '{}',
        headers: { 'content-type': 'text/plain' },
      });
      expectProblem(text, 415, 'unsupported_media_type');
    }
    expect(await countRows()).toBe(before);
  });

  it('refuses unknown and ill-formed query fields on every GET', async () => {
    for (const { method, path, scopes } of await routes()) {
      if (method !== 'GET' || scopes.length === 0) continue;
      const address = filled(path, { approval: sessionId });
      for (const [query, at] of [
        ['nobody=1', '/nobody'],
        ['__proto__=1', '/__proto__'],
        ['a=%00', '/a'],
        ['constructor[x]=1', '/constructor[x]'],
      ]) {
        const answer = await gateway.send(method, `${address}?${query}`, { key: own.key });
        expectProblem(answer, 422, 'invalid_request');
        expect(answer.body.errors.map((error: { path: string }) => error.path)).toContain(at);
      }
    }
  });

  it.each([
    ['/v1/sessions?limit=0', '/limit'],
    ['/v1/sessions?limit=201', '/limit'],
    ['/v1/sessions?limit=x', '/limit'],
    ['/v1/sessions?limit=1&limit=2', '/limit'],
    ['/v1/sessions?cursor=x', '/cursor'],
    ['/v1/approvals?status=maybe', '/status'],
    ['/v1/approvals?runId=1', '/runId'],
    ['/v1/sessions/{sessionId}/event-log?after=-1', '/after'],
    ['/v1/sessions/{sessionId}/event-log?after=99999999999999999999', '/after'],
    ['/v1/sessions/{sessionId}/event-log?limit=1001', '/limit'],
    ['/v1/sessions/{sessionId}/messages?after=1.5', '/after'],
    ['/v1/runs/{runId}/hooks?cursor=abc', '/cursor'],
    ['/v1/sessions/{sessionId}/events?after=-1', '/after'],
    ['/v1/sessions/{sessionId}/events?after=abc', '/after'],
    ['/v1/sessions/{sessionId}/events?after=9223372036854775808', '/after'],
    ['/v1/sessions/{sessionId}/events?after=999999', '/after'],
    ['/v1/runs/{runId}/events?after=999999', '/after'],
  ])('%s is 422 at %s', async (path, at) => {
    const answer = await gateway.send('GET', filled(path), { key: own.key });
    expectProblem(answer, 422, 'invalid_request');
    expect(answer.body.errors[0].path).toBe(at);
  });

  it.each([
    ['/v1/sessions', { title: 5 }, '/title'],
    ['/v1/sessions', { title: '' }, '/title'],
    ['/v1/sessions', { title: 'x'.repeat(201) }, '/title'],
    ['/v1/sessions', { user: null }, '/user'],
    ['/v1/sessions', { metadata: [] }, '/metadata'],
    ['/v1/sessions', { metadata: { a: 'x'.repeat(17_000) } }, '/metadata'],
    ['/v1/sessions/{sessionId}/runs', {}, '/content'],
    ['/v1/sessions/{sessionId}/runs', { content: '' }, '/content'],
    ['/v1/sessions/{sessionId}/runs', { content: 'x'.repeat(500_001) }, '/content'],
    ['/v1/sessions/{sessionId}/runs', { content: { text: 'x' } }, '/content'],
    ['/v1/sessions/{sessionId}/runs', { content: 'x', onBusy: 'steer' }, '/onBusy'],
    ['/v1/sessions/{sessionId}/runs', { content: 'x', mode: 'nope' }, '/mode'],
    ['/v1/sessions/{sessionId}/runs', { content: 'x', mode: '__proto__' }, '/mode'],
    ['/v1/sessions/{sessionId}/runs', { content: 'x', agent: 'nope' }, '/agent'],
    ['/v1/sessions/{sessionId}/runs', { content: 'x', metadata: 'x' }, '/metadata'],
    ['/v1/approvals/{approvalId}/decisions', { decisions: [] }, '/decisions'],
    [
      '/v1/approvals/{approvalId}/decisions',
      { decisions: [{ callId: 'x', decision: 'approve' }] },
      '/decisions/0/callId',
    ],
    [
      '/v1/approvals/{approvalId}/decisions',
      { decisions: [{ callId: NOBODY, decision: 'maybe' }] },
      '/decisions/0/decision',
    ],
    [
      '/v1/approvals/{approvalId}/decisions',
      { decisions: [{ callId: NOBODY, decision: 'deny', note: 1 }] },
      '/decisions/0/note',
    ],
  ])('POST %s with a wrong field (%#) is 422 at its path', async (path, body, at) => {
    const answer = await gateway.send('POST', filled(path), { key: own.key, body });
    expectProblem(answer, 422, 'invalid_request');
    expect(answer.body.errors[0].path).toBe(at);
  });

  it.each([
    [{ callId: NOBODY, decision: 'deny', scope: 'session' }, '/decisions/0/scope'],
    [{ callId: NOBODY, decision: 'deny', arguments: {} }, '/decisions/0/arguments'],
    [{ callId: NOBODY, decision: 'approve', reason: 'why not' }, '/decisions/0/reason'],
  ])('a decision %j says what does not go together', async (decision, at) => {
    const answer = await gateway.send('POST', filled('/v1/approvals/{approvalId}/decisions'), {
      key: own.key,
      body: { decisions: [decision] },
    });
    expectProblem(answer, 422, 'invalid_request');
    expect(answer.body.errors[0].path).toBe(at);
  });

  it.each(['-1', 'abc', '', '1e3', '9223372036854775808', '999999'])('Last-Event-ID %j is 422', async (value) => {
    const answer = await gateway.send('GET', filled('/v1/sessions/{sessionId}/events'), {
      key: own.key,
      headers: { 'last-event-id': value },
    });
    expectProblem(answer, 422, 'invalid_request');
    expect(answer.body.errors[0].path).toBe('Last-Event-ID');
  });

  it('answers unknown addresses and methods in its own words', async () => {
    for (const path of [
      '/',
      '/v1',
      '/v1/nope',
      '/v1/sessions/',
      '/v1/runs/%zz',
      `/v1/runs/${'a'.repeat(3000)}`,
      '/v1/agents/nobody',
      '/v1/agents/%00',
    ]) {
      expectProblem(await gateway.send('GET', path, { key: own.key }), 404, 'not_found');
    }
    for (const { method, path } of await routes()) {
      const answer = await gateway.send('PATCH', filled(path), { key: own.key });
      expectProblem(answer, 405, 'method_not_allowed');
      expect(answer.headers.get('allow')).toContain(method);
    }
  });
});

describe('a body without end', () => {
  it('is cut off soon after the limit, with 413', async () => {
    const { hostname, port } = new URL(gateway.url);
    const answer = await new Promise<{ text: string; sent: number }>((resolve) => {
      let text = '';
      let sent = 0;
      const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
      const socket = connect(Number(port), hostname, () => {
        const path = `/v1/sessions/${sessionId}/runs`;
        socket.write(
          `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${own.key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
        );
        const pour = () => {
          while (!socket.destroyed && sent < 50_000_000 && socket.write(chunk)) sent += 65_536;
          if (!socket.destroyed && sent < 50_000_000) socket.once('drain', pour);
        };
        pour();
      });
      socket.on('data', (data) => {
        text += data;
        socket.destroy();
      });
      socket.on('error', () => undefined);
      socket.on('close', () => resolve({ text, sent }));
    });
    expect(answer.text).toContain('HTTP/1.1 413');
    expect(answer.text).toContain('too_large');
    expect(answer.sent).toBeLessThan(20_000_000);
  });
});

describe('the OpenAPI document', () => {
  it('refers only to what it defines', async () => {
    const { body: document } = await gateway.send('GET', '/openapi.json');
    expect(document.openapi).toBe('3.1.0');
    const text = JSON.stringify(document);
    for (const [, reference = ''] of text.matchAll(/"\$ref":"([^"]+)"/g)) {
      expect(reference).toMatch(/^#\/components\/schemas\//);
      expect(document.components.schemas).toHaveProperty(reference.split('/').at(-1) ?? '');
    }
    const ids = Object.values(document.paths).flatMap((operations) =>
      Object.values(operations as Record<string, { operationId: string }>).map((one) => one.operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('says of which answers a client learns when to come back', async () => {
    const { body: document } = await gateway.send('GET', '/openapi.json');
    const { responses } = document.paths['/v1/sessions/{sessionId}/runs'].post;
    const announced = Object.keys(responses).filter((status) => responses[status].headers?.['Retry-After']);
    expect(announced).toEqual(['409', '429', '503']);
    expect(document.paths['/v1/runs/{runId}'].get.responses['404']).not.toHaveProperty('headers');
  });
});

describe('probes', () => {
  it('answer without a key', async () => {
    expect(await gateway.send('GET', '/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(await gateway.send('GET', '/readyz')).toMatchObject({ status: 200, body: { status: 'ok' } });
  });
});
