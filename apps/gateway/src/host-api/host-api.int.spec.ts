import { capabilitySigner } from '@codedock/plugin-bridge';
import { host } from '@codedock/proto';
import { createTestDatabase, expectNoLeftovers, freePort, openEventStream, type TestDatabase } from '@codedock/testkit';
import { credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { Client } from 'pg';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

const TOKEN = 'a token for the services of this test';
const KEY = 'a capability key of at least 32 bytes';
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
const caller = (more: object = {}): host.Caller => ({ plugin: 'notes', capability: capability(more) });

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
    ['no capability', () => ({ plugin: 'notes', capability: Buffer.alloc(0) })],
    [
      'a forged one',
      () => ({
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
      caller: { plugin: 'notes', capability: Buffer.alloc(0) },
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
});
