import { randomUUID } from 'node:crypto';
import { createTestDatabase, expectNoLeftovers, type TestDatabase } from '@codedock/testkit';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url);
  tenant = await gateway.tenant('agents');
  other = await gateway.tenant('others');
});
afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const FAKE = { provider: 'fake', name: 'fake' };
const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}, key = tenant.key) =>
  gateway.send(method, path, { key, headers, ...(body === undefined ? {} : { body }) });
const nameOf = () => `agent-${randomUUID().slice(0, 8)}`;
const create = (body: unknown) => send('POST', '/v1/agents', body);

describe("a tenant's own agent profiles", () => {
  it('are made complete by defaults, listed beside the installation’s, replaced and deleted by version', async () => {
    const name = nameOf();
    const made = await create({ name, model: FAKE, systemPrompt: 'one' });
    expect(made).toMatchObject({
      status: 201,
      body: {
        name,
        systemPrompt: 'one',
        source: 'tenant',
        version: 1,
        limits: { maxTurns: 50 },
        approvalMode: 'manual',
      },
    });
    expect(made.headers.get('etag')).toBe('"1"');
    const path = `/v1/agents/${name}`;
    const read = await send('GET', path);
    expect(read.body).toEqual(made.body);
    expect(read.headers.get('etag')).toBe('"1"');
    const list = (await send('GET', '/v1/agents')).body.items as { name: string; source: string }[];
    expect(list.map((one) => [one.name, one.source])).toEqual([
      [name, 'tenant'],
      ['default', 'installation'],
    ]);

    const body = { model: FAKE, systemPrompt: 'two' };
    const replaced = await send('PUT', path, body, { 'if-match': '"1"' });
    expect(replaced).toMatchObject({ status: 200, body: { name, systemPrompt: 'two', version: 2 } });
    expect(replaced.headers.get('etag')).toBe('"2"');
    // Who has read the first version does not overwrite the second.
    const late = await send('PUT', path, { model: FAKE, systemPrompt: 'lost' }, { 'if-match': '"1"' });
    expect(late).toMatchObject({ status: 409, body: { code: 'conflict' } });
    expect(late.body.detail).toContain('version 2');
    expect((await send('DELETE', path, undefined, { 'if-match': '"1"' })).status).toBe(409);
    expect((await send('GET', path)).body.systemPrompt).toBe('two');
    expect((await send('PUT', path, body, { 'if-match': '*' })).body.version).toBe(3);
    expect((await send('DELETE', path, undefined, { 'if-match': '"3"' })).status).toBe(204);
    expect((await send('GET', path)).status).toBe(404);
    expect((await send('DELETE', path, undefined, { 'if-match': '*' })).status).toBe(404);
    expect((await send('PUT', path, body, { 'if-match': '*' })).status).toBe(404);
    const acts = (await send('GET', `/v1/audit?target=${name}`)).body.items as { action: string; detail: unknown }[];
    expect(acts.map(({ action, detail }) => [action, detail])).toEqual([
      ['agent.deleted', { version: 3 }],
      ['agent.replaced', { version: 3 }],
      ['agent.replaced', { version: 2 }],
      ['agent.created', { version: 1 }],
    ]);
  });

  it('of many who replace one version, one wins', async () => {
    const name = nameOf();
    await create({ name, model: FAKE });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        send('PUT', `/v1/agents/${name}`, { model: FAKE, systemPrompt: `${n}` }, { 'if-match': '"1"' }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(9);
    expect((await send('GET', `/v1/agents/${name}`)).body.version).toBe(2);
  });

  it("lie over the installation's of the same name, which nobody changes here and which comes back", async () => {
    const path = '/v1/agents/default';
    for (const method of ['PUT', 'DELETE']) {
      const refused = await send(method, path, method === 'PUT' ? { model: FAKE } : undefined, { 'if-match': '*' });
      expect(refused).toMatchObject({ status: 409, body: { code: 'conflict' } });
      expect(refused.body.detail).toContain('CODEDOCK_PROFILES_FILE');
    }
    expect((await create({ name: 'default', model: FAKE, systemPrompt: 'mine' })).status).toBe(201);
    expect(await create({ name: 'default', model: FAKE })).toMatchObject({ status: 409, body: { code: 'conflict' } });
    expect((await send('GET', path)).body).toMatchObject({ systemPrompt: 'mine', source: 'tenant' });
    expect((await send('GET', path, undefined, {}, other.key)).body.source).toBe('installation');
    // A start reads the file anew and leaves the tenant's alone.
    const second = await startTestGateway(database.url);
    await second.stop();
    expect((await send('GET', path)).body.systemPrompt).toBe('mine');
    await send('DELETE', path, undefined, { 'if-match': '"1"' });
    expect((await send('GET', path)).body.source).toBe('installation');
  });

  it('hold for runs from now on; a run keeps the profile it began with', async () => {
    const name = nameOf();
    await create({ name, model: FAKE, systemPrompt: 'before', modes: { fast: { systemPrompt: 'quick' } } });
    const session = (await send('POST', '/v1/sessions', {})).body.id;
    const start = async (more: object = {}) => {
      const { body } = await send('POST', `/v1/sessions/${session}/runs`, {
        content: 'x',
        agent: name,
        onBusy: 'enqueue',
        ...more,
      });
      return body.runId as string;
    };
    const first = await start({ mode: 'fast' });
    await send('PUT', `/v1/agents/${name}`, { model: FAKE, systemPrompt: 'after' }, { 'if-match': '"1"' });
    const second = await start();
    const promptOf = async (runId: string) =>
      (await gateway.store.runs.work({ tenantId: tenant.id, sessionId: session, runId }))?.config.systemPrompt;
    expect(await promptOf(first)).toBe('quick');
    expect(await promptOf(second)).toBe('after');
    const gone = await send('POST', `/v1/sessions/${session}/runs`, { content: 'x', agent: name, mode: 'fast' });
    expect(gone).toMatchObject({ status: 422, body: { errors: [{ path: '/mode' }] } });
    await send('DELETE', `/v1/agents/${name}`, undefined, { 'if-match': '*' });
    const missing = await send('POST', `/v1/sessions/${session}/runs`, { content: 'x', agent: name });
    expect(missing).toMatchObject({ status: 422, body: { errors: [{ path: '/agent' }] } });
    expect(await promptOf(second)).toBe('after');
  });

  it("are one tenant's: another sees and changes none of them", async () => {
    const name = nameOf();
    await create({ name, model: FAKE });
    const path = `/v1/agents/${name}`;
    expect((await send('GET', path, undefined, {}, other.key)).status).toBe(404);
    expect((await send('PUT', path, { model: FAKE }, { 'if-match': '*' }, other.key)).status).toBe(404);
    expect((await send('DELETE', path, undefined, { 'if-match': '*' }, other.key)).status).toBe(404);
    const list = (await send('GET', '/v1/agents', undefined, {}, other.key)).body.items as { name: string }[];
    expect(list.map((one) => one.name)).toEqual(['default']);
    expect((await send('GET', path)).body.version).toBe(1);
  });

  it('are created once under an idempotency key', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const body = { name: nameOf(), model: FAKE };
    const first = await send('POST', '/v1/agents', body, headers);
    const second = await send('POST', '/v1/agents', body, headers);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body).toEqual(first.body);
    const another = await send('POST', '/v1/agents', { ...body, systemPrompt: 'x' }, headers);
    expect(another).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
  });

  it.each([
    [{ model: FAKE }, '/name'],
    [{ name: 'a/b', model: FAKE }, '/name'],
    [{ name: 'x'.repeat(65), model: FAKE }, '/name'],
    [{ name: 'x' }, '/model'],
    [{ name: 'x', model: { provider: 'unknown', name: 'm' } }, '/model/provider'],
    [{ name: 'x', model: FAKE, limits: { maxTurns: 0 } }, '/limits/maxTurns'],
    [{ name: 'x', model: FAKE, tools: ['no spaces'] }, '/tools/0'],
    [{ name: 'x', model: FAKE, version: 1 }, '/version'],
    [{ name: 'x', model: FAKE, modes: { fast: { limits: {} } } }, '/modes/fast/limits'],
  ])('%j is 422', async (body, at) => {
    const answer = await create(body);
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_request' } });
    expect(answer.body.errors.map(({ path }: { path: string }) => path)).toContain(at);
  });

  it.each([undefined, '1', '""', 'W/"1"', '"x"', '"1", "2"'])('If-Match %j is 422', async (ifMatch) => {
    const name = nameOf();
    await create({ name, model: FAKE });
    const headers: Record<string, string> = ifMatch === undefined ? {} : { 'if-match': ifMatch };
    const answer = await send('PUT', `/v1/agents/${name}`, { model: FAKE }, headers);
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ path: 'If-Match' }] } });
  });

  it('keep their name', async () => {
    const name = nameOf();
    await create({ name, model: FAKE });
    const answer = await send('PUT', `/v1/agents/${name}`, { name: 'other', model: FAKE }, { 'if-match': '"1"' });
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ path: '/name' }] } });
  });
});
