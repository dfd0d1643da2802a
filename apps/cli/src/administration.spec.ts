import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type FakeGateway, fakeGateway } from './testing/fake-gateway.js';

const ANSWERS: Readonly<Record<string, object>> = {
  'GET /v1/agents/brief': {
    name: 'brief',
    model: { provider: 'fake', name: 'fake' },
    source: 'tenant',
    version: 7,
    updatedAt: 'then',
  },
  'PUT /v1/agents/brief': { name: 'brief', version: 8 },
  'PUT /v1/retention': {
    events: { days: 30, source: 'tenant' },
    audit: { days: null, source: 'none' },
    messages: { days: 90, source: 'installation' },
  },
  'GET /v1/memory/colour': { name: 'colour', text: 'blue', updatedAt: 'then' },
  'PUT /v1/memory/a%2Fb': { name: 'a/b', text: 'x', updatedAt: 'then' },
  'GET /v1/audit': {
    items: [{ occurredAt: 'then', actor: 'ann', action: 'key.created', target: 'ci', detail: { scopes: ['runs'] } }],
  },
  'GET /v1/tool-calls': {
    items: [{ id: 'c1', sessionId: 's1', runId: 'r1', name: 'pay', createdAt: 'then', arguments: { amount: 5 } }],
    nextCursor: null,
  },
  'POST /v1/secrets/reencrypt': { keyId: 'abc', pluginSecrets: 2, webhooks: 1, unreadable: 0 },
};

let gateway: FakeGateway;
const key = process.env['CODEDOCK_API_KEY'];
let folder: string;
const codedock = (...args: string[]) => gateway.codedock(...args);

beforeAll(async () => {
  process.env['CODEDOCK_API_KEY'] = 'cdk_test';
  folder = mkdtempSync(path.join(os.tmpdir(), 'codedock-cli-'));
  gateway = await fakeGateway(ANSWERS);
});
beforeEach(() => {
  gateway.asked.length = 0;
});
afterAll(async () => {
  if (key === undefined) delete process.env['CODEDOCK_API_KEY'];
  else process.env['CODEDOCK_API_KEY'] = key;
  rmSync(folder, { recursive: true, force: true });
  await gateway.close();
});

it('retention set sends what is named, and default as null', async () => {
  const text = await codedock('retention', 'set', '--events', '30', '--messages', 'default');
  expect(gateway.asked).toEqual([{ method: 'PUT', url: '/v1/retention', body: { events: 30, messages: null } }]);
  expect(text).toMatch(/events +30 days +tenant/);
  expect(text).toMatch(/audit +never +none/);
  await expect(codedock('retention', 'set')).rejects.toThrow('--events');
  await expect(codedock('retention', 'set', '--audit', 'soon')).rejects.toThrow('--audit');
});

it('sessions delete says whether runs are cancelled', async () => {
  expect(await codedock('sessions', 'delete', 's1')).toContain('is deleted');
  await codedock('sessions', 'delete', 's1', '--cancel');
  expect(gateway.asked.map((one) => `${one.method} ${one.url}`)).toEqual([
    'DELETE /v1/sessions/s1?cancel=false',
    'DELETE /v1/sessions/s1?cancel=true',
  ]);
});

it('agents replace names the version it changes: the present one, or the one that was read', async () => {
  const file = path.join(folder, 'agent.json');
  writeFileSync(file, '{"model":{"provider":"fake","name":"fake"}}');
  await codedock('agents', 'replace', 'brief', file);
  await codedock('agents', 'replace', 'brief', file, '--if-version', '3');
  await codedock('agents', 'delete', 'brief', '--if-version', '8');
  const body = { model: { provider: 'fake', name: 'fake' } };
  expect(gateway.asked).toEqual([
    { method: 'GET', url: '/v1/agents/brief' },
    { method: 'PUT', url: '/v1/agents/brief', ifMatch: '"7"', body },
    { method: 'PUT', url: '/v1/agents/brief', ifMatch: '"3"', body },
    { method: 'DELETE', url: '/v1/agents/brief', ifMatch: '"8"' },
  ]);
});

it('agents show prints what replace takes', async () => {
  expect(JSON.parse(await codedock('agents', 'show', 'brief'))).toEqual({
    name: 'brief',
    model: { provider: 'fake', name: 'fake' },
  });
});

it('memory is that of a session, a user or the tenant', async () => {
  expect(await codedock('memory', 'get', 'colour', '--user', 'ann & co')).toBe('blue\n');
  await codedock('memory', 'set', 'a/b', 'x', '--session', 's1');
  await codedock('memory', 'delete', 'colour');
  expect(gateway.asked).toEqual([
    { method: 'GET', url: '/v1/memory/colour?scope=user&owner=ann+%26+co' },
    { method: 'PUT', url: '/v1/memory/a%2Fb', body: { scope: 'session', owner: 's1', text: 'x' } },
    { method: 'DELETE', url: '/v1/memory/colour?scope=tenant' },
  ]);
  await expect(codedock('memory', 'list', '--user', 'a', '--session', 'b')).rejects.toThrow('either');
});

it('tool-calls list shows those whose outcome nobody knows', async () => {
  expect(await codedock('tool-calls', 'list')).toMatch(/c1 +s1 +r1 +pay +then +{"amount":5}/);
  expect(gateway.asked).toEqual([{ method: 'GET', url: '/v1/tool-calls?state=unknown' }]);
});

it('audit and secrets are shown', async () => {
  expect(await codedock('audit', '--action', 'key.created', '--installation')).toContain('{"scopes":["runs"]}');
  expect(await codedock('secrets', 'reencrypt')).toContain('2 secrets of plugins and 1 of webhooks');
  expect(gateway.asked.map(({ url: target }) => target)).toEqual([
    '/v1/audit?limit=50&action=key.created&of=installation',
    '/v1/secrets/reencrypt',
  ]);
});
