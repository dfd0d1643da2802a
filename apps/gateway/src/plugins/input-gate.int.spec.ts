import {
  createTestDatabase,
  eventually,
  expectNoLeftovers,
  freePort,
  nodeTypeScript,
  startProcess,
  type TemporaryFolder,
  type TestDatabase,
  type TestProcess,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { Client } from 'pg';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

const TOKEN = 'a token for the services of this test';

/** A policy whose word on an input is in the input. */
const POLICY = `
import { serve } from '@codedock/plugin-sdk';
serve({
  name: 'policy',
  version: '1.2.3',
  async onAgentInput(input) {
    const [word, ...rest] = input.content.split(' ');
    switch (word) {
      case 'handle': return input.handle('dealt with');
      case 'block': return input.block('no ' + rest.join(' '));
      case 'change': return input.reply({ content: 'changed by policy' });
      case 'empty': return input.reply({ content: '' });
      case 'mode': return input.reply({ mode: 'unheard of' });
      case 'throw': throw new Error('broken policy');
      case 'hang': return new Promise(() => undefined);
      case 'call-back':
        await input.host.memory.upsert(input, 'seen', rest.join(' '), 'tenant');
        await input.host.appendNotice(input, 'noted: ' + (await input.host.memory.get(input, 'seen', 'tenant')));
        return input.handle();
      case 'user-memory':
        await input.host.memory.upsert(input, 'seen', 'x', 'user');
        return input.handle();
    }
  },
});
`;

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let folder: TemporaryFolder;
let pluginHost: TestProcess | undefined;
let hostEnvironment: Record<string, string>;

async function startPluginHost(): Promise<TestProcess> {
  const { command, args } = nodeTypeScript('apps/plugin-host/src/main.ts');
  return startProcess({ name: 'plugin-host', command, args, env: hostEnvironment });
}

beforeAll(async () => {
  database = await createTestDatabase();
  folder = await temporaryFolder();
  await writePlugin(folder.path, 'policy', { source: POLICY });
  const [gatePort, hostApiPort, healthPort] = [await freePort(), await freePort(), await freePort()];
  gateway = await startTestGateway(database.url, {
    PLUGIN_HOST_URL: `127.0.0.1:${gatePort}`,
    CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApiPort}`,
    CODEDOCK_INTERNAL_TOKEN: TOKEN,
    CODEDOCK_CAPABILITY_KEY: 'a capability key of at least 32 bytes',
  });
  hostEnvironment = {
    CODEDOCK_PLUGIN_DIR: folder.path,
    PLUGIN_HOST_LISTEN: `127.0.0.1:${gatePort}`,
    CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
    CODEDOCK_HOST_API_URL: `127.0.0.1:${hostApiPort}`,
    CODEDOCK_INTERNAL_TOKEN: TOKEN,
  };
  tenant = await gateway.tenant('gate');
});

afterAll(async () => {
  await gateway.stop();
  await pluginHost?.stop();
  await folder.remove();
  await database.drop();
  await expectNoLeftovers();
});

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  gateway.send('POST', path, { key: tenant.key, body, headers });
const get = (path: string) => gateway.send('GET', path, { key: tenant.key });
const newSession = async (body: object = {}): Promise<string> => (await post('/v1/sessions', body)).body.id;
const chainReady = () =>
  eventually(async () => (await get('/v1/plugins/explain')).body.ready === true, { timeoutMs: 15_000 });

async function adminActs(): Promise<{ action: string; reason: string | null }[]> {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query(
    "SELECT action, detail->>'reason' AS reason FROM admin_audit WHERE target = 'policy' AND tenant_id IS NOT NULL",
  );
  await client.end();
  return rows;
}

async function nothingHappened(session: string): Promise<void> {
  expect((await get(`/v1/sessions/${session}/runs`)).body.items).toEqual([]);
  expect((await get(`/v1/sessions/${session}/event-log`)).body.items).toEqual([]);
  expect((await get(`/v1/sessions/${session}/messages`)).body.items).toEqual([]);
}

it('refuses input with 503 before the plugin-host has said a word, and frees the idempotency key', async () => {
  const session = await newSession();
  const key = { 'idempotency-key': 'early' };
  const early = await post(`/v1/sessions/${session}/runs`, { content: 'hello' }, key);
  expect(early).toMatchObject({ status: 503, body: { code: 'gate_unavailable' } });
  await nothingHappened(session);
  expect((await gateway.send('GET', '/readyz')).status).toBe(200);
  expect((await get(`/v1/sessions/${session}/hooks`)).body.items).toMatchObject([
    { gate: 'beforeInput', hook: 'host' },
  ]);
  pluginHost = await startPluginHost();
  await chainReady();
  expect((await post(`/v1/sessions/${session}/runs`, { content: 'hello' }, key)).status).toBe(201);
});

describe('with a policy', () => {
  it('lists and explains it', async () => {
    expect((await get('/v1/plugins')).body).toMatchObject({
      items: [
        {
          name: 'policy',
          state: 'ready',
          version: '1.2.3',
          required: true,
          disabled: false,
          ports: ['agent/input'],
          replicas: [{ state: 'ready' }],
        },
      ],
      unreachable: [],
    });
    expect((await get('/v1/plugins/explain')).body).toMatchObject({
      ready: true,
      ports: [{ port: 'agent/input', subscribers: [{ plugin: 'policy', ready: true, failurePolicy: 'closed' }] }],
    });
  });

  it('handled creates nothing and cancels nothing, also on a busy session; a retry is handled without asking again', async () => {
    const session = await newSession();
    const active = await post(`/v1/sessions/${session}/runs`, { content: 'hello' });
    const key = { 'idempotency-key': 'handled' };
    const answer = await post(`/v1/sessions/${session}/runs`, { content: 'handle it', onBusy: 'interrupt' }, key);
    expect(answer).toMatchObject({ status: 200, body: { handled: true, runId: null, run: null } });
    expect((await get(`/v1/runs/${active.body.runId}`)).body).toMatchObject({
      status: 'queued',
      cancelRequested: false,
    });
    const records = (await get(`/v1/sessions/${session}/hooks`)).body.items;
    expect(records.map((record: { outcome: string }) => record.outcome)).toEqual(['continued', 'handled']);
    const again = await post(`/v1/sessions/${session}/runs`, { content: 'handle it', onBusy: 'interrupt' }, key);
    expect(again).toMatchObject({ status: 200, body: { handled: true } });
    expect((await get(`/v1/sessions/${session}/hooks`)).body.items).toHaveLength(2);
  });

  it('block is 403 with an audit row and nothing else', async () => {
    const session = await newSession();
    const answer = await post(`/v1/sessions/${session}/runs`, { content: 'block this' });
    expect(answer).toMatchObject({ status: 403, body: { code: 'hook_blocked', detail: 'no this' } });
    await nothingHappened(session);
    expect((await get(`/v1/sessions/${session}/hooks`)).body.items).toMatchObject([
      {
        gate: 'beforeInput',
        port: 'agent/input',
        hook: 'policy',
        version: '1.2.3',
        outcome: 'blocked',
        requestId: expect.any(String),
      },
    ]);
  });

  it('a changed input is what is stored, and the waterfall shows who changed it', async () => {
    const session = await newSession();
    const { body } = await post(`/v1/sessions/${session}/runs`, { content: 'change me' });
    expect((await get(`/v1/sessions/${session}/messages`)).body.items).toMatchObject([
      { content: { text: 'changed by policy' } },
    ]);
    const { gates } = (await get(`/v1/runs/${body.runId}/trace`)).body;
    expect(gates).toMatchObject([
      {
        gate: 'beforeInput',
        hook: 'policy',
        outcome: 'changed',
        atMs: expect.any(Number),
        durationMs: expect.any(Number),
      },
    ]);
    expect((await get(`/v1/runs/${body.runId}/hooks`)).body.items).toHaveLength(1);
  });

  it.each(['empty', 'mode', 'throw'])(
    'an invalid or broken answer (%s) is 503, never a refusal, and nothing happened',
    async (word) => {
      const session = await newSession();
      const answer = await post(`/v1/sessions/${session}/runs`, { content: word });
      expect(answer).toMatchObject({ status: 503, body: { code: 'gate_unavailable' } });
      await nothingHappened(session);
      const { outcome } = (await get(`/v1/sessions/${session}/hooks`)).body.items.at(-1);
      expect(['invalid', 'error']).toContain(outcome);
    },
  );

  it('a policy that hangs is 503 gate_timeout', async () => {
    const session = await newSession();
    const answer = await post(`/v1/sessions/${session}/runs`, { content: 'hang' });
    expect(answer).toMatchObject({ status: 503, body: { code: 'gate_timeout' } });
    await nothingHappened(session);
  });

  it('calls back for memory and notices within its authority', async () => {
    const session = await newSession();
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'call-back one two' })).body).toMatchObject({
      handled: true,
    });
    expect((await get(`/v1/sessions/${session}/messages`)).body.items).toMatchObject([
      { role: 'system', kind: 'notice', content: { text: 'noted: one two' } },
    ]);
    expect((await get(`/v1/sessions/${session}/event-log`)).body.items).toMatchObject([
      { type: 'message.notice', payload: { plugin: 'policy' } },
    ]);
    const memory = await gateway.store.memory.get({ tenantId: tenant.id, scope: 'tenant', owner: '' }, 'seen');
    expect(memory?.text).toBe('one two');
  });

  it('has user memory only in sessions of a user', async () => {
    const session = await newSession();
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'user-memory' })).status).toBe(503);
    const anns = await newSession({ user: 'ann' });
    expect((await post(`/v1/sessions/${anns}/runs`, { content: 'user-memory' })).status).toBe(200);
    expect(await gateway.store.memory.get({ tenantId: tenant.id, scope: 'user', owner: 'ann' }, 'seen')).toMatchObject({
      text: 'x',
    });
  });
});

describe('an administrator', () => {
  it('takes a plugin out and lets it in again; a misspelt name is refused', async () => {
    expect(await post('/v1/plugins/polizy/disable', {})).toMatchObject({
      status: 404,
      body: { code: 'plugin_not_found' },
    });
    const out = await post('/v1/plugins/policy/disable', { reason: 'maintenance' });
    expect(out).toMatchObject({ status: 200, body: { plugin: 'policy', disabled: true, refreshed: 1 } });
    const session = await newSession();
    await eventually(async () => (await get('/v1/plugins/explain')).body.ports.length === 0);
    expect((await post(`/v1/sessions/${session}/runs`, { content: 'block this' })).status).toBe(201);
    expect((await get('/v1/plugins')).body.items).toMatchObject([{ name: 'policy', disabled: true }]);
    const back = await post('/v1/plugins/policy/enable', {});
    expect(back.body.epoch).toBeGreaterThan(out.body.epoch);
    await eventually(async () => (await get('/v1/plugins/explain')).body.ports[0]?.subscribers[0]?.ready === true);
    expect((await post(`/v1/sessions/${await newSession()}/runs`, { content: 'block this' })).status).toBe(403);
  });

  it('stops, starts and reloads it for as long as its host lives; all of it is audited', async () => {
    expect(await post('/v1/plugins/polizy/stop', {})).toMatchObject({
      status: 404,
      body: { code: 'plugin_not_found' },
    });
    const stopped = await post('/v1/plugins/policy/stop', { reason: 'too strict' });
    expect(stopped).toMatchObject({ status: 200, body: { replicas: [{ done: true, state: 'stopped' }] } });
    await eventually(async () => (await get('/v1/plugins/explain')).body.ready === true);
    expect((await post(`/v1/sessions/${await newSession()}/runs`, { content: 'block this' })).status).toBe(201);
    expect((await get('/v1/plugins')).body.items).toMatchObject([
      { name: 'policy', state: 'stopped', disabled: false, reason: 'stopped by an administrator' },
    ]);
    const started = await post('/v1/plugins/policy/start', {});
    expect(started.body).toMatchObject({ replicas: [{ done: true, state: 'ready' }] });
    expect(started.body.epoch).toBeGreaterThan(stopped.body.epoch);
    await eventually(async () => (await get('/v1/plugins/explain')).body.ports[0]?.subscribers[0]?.ready === true);
    expect((await post(`/v1/sessions/${await newSession()}/runs`, { content: 'block this' })).status).toBe(403);
    const generation = started.body.replicas[0].generation;
    expect((await post('/v1/plugins/policy/reload', {})).body).toMatchObject({
      replicas: [{ done: true, state: 'ready', generation: generation + 1 }],
    });
    const acts = await adminActs();
    expect(acts).toEqual(expect.arrayContaining([{ action: 'plugin.stop', reason: 'too strict' }]));
    expect(acts.map((act) => act.action)).toEqual(expect.arrayContaining(['plugin.start', 'plugin.reload']));
  });

  it('can act while the plugin-host is gone: input is refused, plugins are still steered', async () => {
    await pluginHost?.kill();
    pluginHost = undefined;
    const session = await newSession();
    const answer = await post(`/v1/sessions/${session}/runs`, { content: 'hello' });
    expect(answer).toMatchObject({ status: 503, body: { code: expect.stringMatching(/^gate_/) } });
    await nothingHappened(session);
    expect(await post('/v1/plugins/policy/disable', {})).toMatchObject({ status: 200, body: { refreshed: 0 } });
    expect((await get('/v1/plugins')).body).toMatchObject({
      items: [{ name: 'policy', state: 'disabled' }],
      unreachable: [{ reason: expect.any(String) }],
    });
    expect((await gateway.send('GET', '/readyz')).status).toBe(200);
  });
});
