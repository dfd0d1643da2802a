import { randomBytes } from 'node:crypto';
import { capabilitySigner } from '@codedock/plugin-bridge';
import { host } from '@codedock/proto';
import {
  createTestDatabase,
  eventually,
  expectNoLeftovers,
  freePort,
  openEventStream,
  type TestDatabase,
} from '@codedock/testkit';
import { credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { Client } from 'pg';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

const TOKEN = 'a token for the services of this test';
const KEY = 'a capability key of at least 32 bytes';
const SECRETS_KEY = randomBytes(32).toString('hex');
const sign = capabilitySigner(KEY);

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let client: host.HostApiClient;
let sessionId: string;

beforeAll(async () => {
  database = await createTestDatabase();
  const port = await freePort();
  gateway = await startTestGateway(database.url, {
    CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${port}`,
    CODEDOCK_INTERNAL_TOKEN: TOKEN,
    CODEDOCK_CAPABILITY_KEY: KEY,
    CODEDOCK_SECRETS_KEY: SECRETS_KEY,
  });
  tenant = await gateway.tenant('host-api');
  client = new host.HostApiClient(`127.0.0.1:${port}`, credentials.createInsecure());
  sessionId = (await gateway.send('POST', '/v1/sessions', { key: tenant.key, body: {} })).body.id;
});

afterAll(async () => {
  client.close();
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

function call<Request, Reply>(
  method: (
    request: Request,
    metadata: Metadata,
    options: object,
    callback: (error: ServiceError | null, reply: Reply) => void,
  ) => unknown,
  request: Request,
  token = TOKEN,
): Promise<Reply> {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  return new Promise((resolve, reject) => {
    method.call(client, request, metadata, { deadline: Date.now() + 5_000 }, (error, reply) =>
      error === null ? resolve(reply) : reject(error),
    );
  });
}

const capability = (more: object = {}) =>
  sign({ tenant: tenant.id, session: sessionId, subject: 'beforeInput', expiresAt: Date.now() + 10_000, ...more });
const caller = (more: object = {}): host.Caller =>
  host.Caller.fromPartial({ plugin: 'notes', capability: capability(more) });
const background = (tenants: string[] = []): host.Caller =>
  host.Caller.fromPartial({ plugin: 'notes', background: true, tenants });
const about = (who: host.Caller = caller(), runId = ''): host.SessionRequest => ({ caller: who, sessionId, runId });

const upsert = (who: host.Caller, scope: string, name: string, text: string) =>
  call(client.memoryUpsert, { caller: who, entry: { key: { sessionId, scope, name }, text } });
const read = (who: host.Caller, scope: string, name: string) =>
  call(client.memoryGet, { caller: who, key: { sessionId, scope, name } });
const notice = (who: host.Caller, text: string, runId = '') =>
  call(client.appendNotice, { caller: who, notice: { sessionId, runId, text } });

async function auditedRefusals(): Promise<{ actor: string; target: string; detail: { reason: string } }[]> {
  const database_ = new Client({ connectionString: database.url });
  await database_.connect();
  const { rows } = await database_.query(
    "SELECT actor, target, detail FROM admin_audit WHERE action = 'host_call_refused' ORDER BY occurred_at",
  );
  await database_.end();
  return rows;
}

describe('the host API', () => {
  it('lets nobody in without the token', async () => {
    await expect(call(client.getDesired, { instanceId: 'x' }, 'wrong')).rejects.toMatchObject({
      code: status.UNAUTHENTICATED,
    });
  });

  it('tells the desired state', async () => {
    const before = await call(client.getDesired, { instanceId: 'x' });
    await gateway.send('POST', '/v1/plugins/notes/disable', { key: tenant.key });
    const after = await call(client.getDesired, { instanceId: 'x' });
    expect(after.disabled).toEqual(['notes']);
    expect(after.chainEpoch).toBeGreaterThan(before.chainEpoch);
  });

  it('keeps memory by scope; what is not there is NOT_FOUND', async () => {
    await upsert(caller(), '', 'a', 'session text');
    await upsert(caller(), 'workspace', 'a', 'tenant text\0');
    expect(await read(caller(), 'session', 'a')).toEqual({ text: 'session text' });
    expect(await read(caller(), 'tenant', 'a')).toEqual({ text: 'tenant text\ufffd' });
    await expect(read(caller(), 'session', 'b')).rejects.toMatchObject({ code: status.NOT_FOUND });
    await expect(read(caller(), 'galaxy', 'a')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(upsert(caller(), 'user', 'a', 'x')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(upsert(caller(), '', '', 'x')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(upsert(caller(), '', 'a', 'x'.repeat(100_001))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
  });

  it('appends a notice that people see at once', async () => {
    const stream = await openEventStream(`${gateway.url}/v1/sessions/${sessionId}/events`, {
      headers: { authorization: `Bearer ${tenant.key}` },
    });
    await notice(caller(), 'look here');
    const frame = await stream.waitFor((one) => one.event === 'message.notice', 1_500);
    expect(JSON.parse(frame.data).payload).toMatchObject({
      plugin: 'notes',
      message: { kind: 'notice', content: { text: 'look here' } },
    });
    stream.close();
    await stream.over;
    await expect(notice(caller(), '')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it.each([
    ['no capability', () => host.Caller.fromPartial({ plugin: 'notes' })],
    [
      'a forged one',
      () =>
        host.Caller.fromPartial({
          plugin: 'notes',
          capability: capabilitySigner('another key of at least 32 bytes!!!')({
            tenant: tenant.id,
            session: sessionId,
            subject: 'x',
            expiresAt: Date.now() + 1_000,
          }),
        }),
    ],
    ['an expired one', () => caller({ expiresAt: Date.now() - 1 })],
    ['one for another session', () => caller({ session: '00000000-0000-7000-8000-000000000000' })],
    ['no plugin', () => ({ ...caller(), plugin: '' })],
    ['a name that is none', () => ({ ...caller(), plugin: '../x' })],
  ])('refuses %s, and audits it', async (_, who) => {
    const before = (await auditedRefusals()).length;
    await expect(notice(who(), 'x')).rejects.toMatchObject({ code: status.PERMISSION_DENIED });
    await expect(read(who(), '', 'a')).rejects.toMatchObject({ code: status.PERMISSION_DENIED });
    const after = await auditedRefusals();
    expect(after).toHaveLength(before + 2);
    expect(after.at(-1)).toMatchObject({ target: 'MemoryGet', detail: { reason: expect.any(String) } });
  });

  it('refuses a run that the capability is not for', async () => {
    const run = '00000000-0000-7000-8000-000000000001';
    await expect(notice(caller({ run }), 'x', '00000000-0000-7000-8000-000000000002')).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
    });
    await expect(notice(caller(), 'x', run)).rejects.toMatchObject({ code: status.PERMISSION_DENIED });
  });

  it("does not reach another tenant's session with a capability of one's own tenant", async () => {
    const other = await gateway.tenant('elsewhere');
    await expect(notice(caller({ tenant: other.id }), 'x')).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it('records what becomes of plugins', async () => {
    const record = {
      caller: host.Caller.fromPartial({ plugin: 'notes' }),
      instanceId: 'host-1',
      message: 'exit code 1',
      sessionId: '',
      runId: '',
    };
    await call(client.recordPluginEvent, { ...record, kind: 'crashed' });
    await expect(call(client.recordPluginEvent, { ...record, kind: 'anything' })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });

  it('tells what the session works with: at an input of the profile asked for', async () => {
    const asked = caller({ agent: 'default' });
    expect((await call(client.getSystemPrompt, about(asked))).text).toEqual(expect.any(String));
    expect((await call(client.listModels, about(asked))).models).toEqual(['fake']);
    await expect(call(client.getSystemPrompt, about(caller({ agent: 'nobody' })))).rejects.toMatchObject({
      code: status.NOT_FOUND,
    });
    await expect(
      call(client.getSystemPrompt, about(caller({ run: '00000000-0000-7000-8000-000000000001' }))),
    ).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it('completes without a gate, and accounts it to the session where there is no run', async () => {
    const complete = (text: string, more: object = {}) =>
      call(client.complete, {
        caller: caller({ agent: 'default' }),
        request: { sessionId, runId: '', prompt: 'Be brief.', text },
        timeoutMs: 0,
        ...more,
      });
    expect(await complete('hello')).toEqual({ text: 'You said: hello' });
    const { usage } = await gateway.store.sessions.get(tenant.id, sessionId);
    expect(usage).toEqual({ inputTokens: 4, outputTokens: 4 });
    const before = (await auditedRefusals()).length;
    await expect(complete('')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(complete('fake:[{"hang": true}]', { timeoutMs: 150 })).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
      details: 'Complete was cut after 150 ms.',
    });
    await expect(complete('fake:[{"fail": "provider_throttled"}]')).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
    expect((await auditedRefusals()).slice(before)).toMatchObject([
      { target: 'Complete', detail: { reason: 'Complete needs a text.' } },
      { target: 'Complete', detail: { reason: expect.stringContaining('cut after 150 ms') } },
      { target: 'Complete' },
    ]);
    expect(await gateway.store.sessions.get(tenant.id, sessionId)).toMatchObject({ usage });
  });

  it('sets the tools of a session; an unknown name is refused and changes nothing', async () => {
    const asked = caller({ agent: 'default' });
    const { names } = await call(client.getActiveTools, about(asked));
    expect(names).toContain('ping');
    await call(client.setActiveTools, { session: about(asked), names: [] });
    expect((await call(client.getActiveTools, about(asked))).names).toEqual(names);
    expect(await gateway.store.sessions.activeTools(tenant.id, sessionId)).toEqual([]);
    await expect(
      call(client.setActiveTools, { session: about(asked), names: ['ping', 'no_such'] }),
    ).rejects.toMatchObject({ code: status.INVALID_ARGUMENT, details: expect.stringContaining('"no_such"') });
    expect((await auditedRefusals()).at(-1)).toMatchObject({ actor: 'plugin notes', target: 'SetActiveTools' });
    expect(await gateway.store.sessions.activeTools(tenant.id, sessionId)).toEqual([]);
  });

  it("keeps a plugin's settings and secrets apart from other plugins' and tenants'", async () => {
    const value = Buffer.from('{"deep": [1, null]}');
    await call(client.setSetting, { session: about(), key: 'level', value });
    await call(client.setSecret, { session: about(), key: 'token', value: 'geheim' });
    const got = await call(client.getSetting, { session: about(), key: 'level' });
    expect(JSON.parse(String(got.value))).toEqual({ deep: [1, null] });
    expect(await call(client.getSecret, { session: about(), key: 'token' })).toEqual({ value: 'geheim' });
    expect((await call(client.listSettings, about())).settings.map(({ key }) => key)).toEqual(['level']);
    const other = { ...caller(), plugin: 'other' };
    for (const who of [other, { ...other, plugin: 'notes2' }]) {
      await expect(call(client.getSetting, { session: about(who), key: 'level' })).rejects.toMatchObject({
        code: status.NOT_FOUND,
      });
      await expect(call(client.getSecret, { session: about(who), key: 'token' })).rejects.toMatchObject({
        code: status.NOT_FOUND,
      });
    }
    for (const key of ['', '../x', 'x'.repeat(129), '__proto__']) {
      await expect(call(client.setSetting, { session: about(), key, value })).rejects.toMatchObject({
        code: status.INVALID_ARGUMENT,
      });
    }
    for (const wrong of ['{', '{"__proto__": 1}', '['.repeat(65) + ']'.repeat(65)]) {
      await expect(
        call(client.setSetting, { session: about(), key: 'k', value: Buffer.from(wrong) }),
      ).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    }
    await expect(
      call(client.setSecret, { session: about(), key: 'k', value: 'x'.repeat(16_385) }),
    ).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  });

  it('lets a plugin with the capability background act outside of calls, for its tenants only', async () => {
    await notice(background(), 'from afar');
    await notice(background([tenant.id]), 'from afar');
    await notice(background([`${tenant.id.slice(0, 8)}*`]), 'from afar');
    await expect(notice(background(['someone else']), 'x')).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
      details: expect.stringContaining('not for'),
    });
    const unknown = { ...about(background()), sessionId: '00000000-0000-7000-8000-000000000000' };
    await expect(call(client.getSystemPrompt, unknown)).rejects.toMatchObject({ code: status.PERMISSION_DENIED });
    expect((await call(client.getSystemPrompt, about(background()))).text).toEqual(expect.any(String));
  });

  it('hands out the events of a plugin with durable delivery, with authority to call back for them', async () => {
    const who = host.Caller.fromPartial({ plugin: 'ledger' });
    const take = (more: Partial<host.TakeEventsRequest> = {}) =>
      call(client.takeEvents, { caller: who, instanceId: 'x', events: ['message.notice'], holdMs: 10_000, ...more });
    expect(await take()).toMatchObject({ lease: '', events: [] });
    await notice(caller(), 'to be told');
    const batch = await eventually(
      async () => {
        const taken = await take();
        expect(taken.lease).not.toBe('');
        return taken;
      },
      { what: 'the event to be visible' },
    );
    const [event] = batch.events;
    expect(event).toMatchObject({ type: 'message.notice', sessionId, eventSeq: batch.throughSeq });
    expect(JSON.parse(String(event?.payload))).toMatchObject({ plugin: 'notes' });
    expect(JSON.parse(String(event?.principal))).toMatchObject({ tenant: tenant.id });
    await notice({ ...who, capability: event?.capability ?? Buffer.alloc(0) } as host.Caller, 'called back');
    const settled = { caller: who, sessionId, lease: batch.lease, deliveredSeq: batch.throughSeq, error: '' };
    expect(await call(client.settleEvents, settled)).toEqual({ held: true });
    expect(await call(client.settleEvents, settled)).toEqual({ held: false });
    for (const wrong of [{ events: ['assistant.delta'] }, { events: ['agent/input'] }, { events: [] }, { holdMs: 1 }])
      await expect(take(wrong)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(take({ caller: host.Caller.fromPartial({ plugin: '../x' }) })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });
});
