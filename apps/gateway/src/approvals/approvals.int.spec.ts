import { randomUUID } from 'node:crypto';
import {
  createTestDatabase,
  expectNoLeftovers,
  openEventStream,
  TestTenant as StoreTenant,
  type TestDatabase,
} from '@codedock/testkit';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url);
  tenant = await gateway.tenant('approvals');
});

afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const get = (path: string) => gateway.send('GET', path, { key: tenant.key });

async function waiting(
  count: number,
): Promise<{ sessionId: string; runId: string; approvalId: string; callIds: readonly string[] }> {
  const inStore = new StoreTenant(gateway.store, tenant.id);
  const sessionId = await inStore.session();
  const { run } = await inStore.accept(sessionId);
  const target = { runId: run.id, sessionId };
  const { attempt } = await inStore.lease(run.id);
  const turn = await inStore.turnWithCalls(target, attempt, count);
  const approvalId = randomUUID();
  await inStore.park(target, attempt, turn, approvalId);
  return { sessionId, runId: run.id, approvalId, callIds: turn.callIds };
}

const decide = (approvalId: string, decisions: object[], key = tenant.key) =>
  gateway.send('POST', `/v1/approvals/${approvalId}/decisions`, { key, body: { decisions } });

describe('an approval', () => {
  it('is listed across sessions and shows what would be executed', async () => {
    const first = await waiting(1);
    const second = await waiting(2);
    const open = (await get('/v1/approvals?status=open')).body.items;
    expect(open.map((approval: { id: string }) => approval.id)).toEqual([second.approvalId, first.approvalId]);
    expect((await get(`/v1/approvals?runId=${first.runId}`)).body.items).toMatchObject([{ id: first.approvalId }]);
    expect((await get(`/v1/approvals/${second.approvalId}`)).body).toMatchObject({
      status: 'open',
      runId: second.runId,
      calls: [{ tool: 'ping', arguments: { index: 0 }, reasons: [{ by: 'tool' }] }, { arguments: { index: 1 } }],
    });
    expect((await get(`/v1/runs/${first.runId}`)).body).toMatchObject({
      status: 'waiting_approval',
      approvalId: first.approvalId,
    });
  });

  it('queues its run when it is decided, tells the stream at once, and takes no other word', async () => {
    const { approvalId, callIds, runId, sessionId } = await waiting(2);
    const stream = await openEventStream(`${gateway.url}/v1/sessions/${sessionId}/events`, {
      headers: { authorization: `Bearer ${tenant.key}` },
    });
    const decisions = [
      { callId: callIds[0], decision: 'approve', scope: 'once' },
      { callId: callIds[1], decision: 'deny', reason: 'not today' },
    ];
    const decided = await decide(approvalId, decisions);
    expect(decided).toMatchObject({
      status: 200,
      body: { status: 'decided', calls: [{ decision: 'approve' }, { decision: 'deny', reason: 'not today' }] },
    });
    expect((await get(`/v1/runs/${runId}`)).body.status).toBe('queued');
    const frame = await stream.waitFor((one) => one.event === 'tool.approval_decided', 1_500);
    expect(JSON.parse(frame.data).payload).toMatchObject({ approvalId, actor: expect.any(String) });
    stream.close();
    await stream.over;
    expect((await decide(approvalId, decisions)).body).toEqual(decided.body);
    expect(await decide(approvalId, [{ callId: callIds[0], decision: 'deny' }])).toMatchObject({
      status: 409,
      body: { code: 'approval_decided' },
    });
  });

  it('keeps a partial decision and waits for the rest', async () => {
    const { approvalId, callIds, runId } = await waiting(2);
    expect((await decide(approvalId, [{ callId: callIds[0], decision: 'approve' }])).body).toMatchObject({
      status: 'open',
    });
    expect((await get(`/v1/runs/${runId}`)).body.status).toBe('waiting_approval');
    expect((await decide(approvalId, [{ callId: callIds[1], decision: 'deny' }])).body).toMatchObject({
      status: 'decided',
    });
  });

  it('takes no call that is not its own, and nothing from a key without the scope', async () => {
    const { approvalId, callIds, runId } = await waiting(1);
    const foreign = await decide(approvalId, [{ callId: randomUUID(), decision: 'approve' }]);
    expect([404, 422]).toContain(foreign.status);
    const { key } = await tenant.newKey(['runs']);
    expect((await decide(approvalId, [{ callId: callIds[0], decision: 'approve' }], key)).status).toBe(403);
    const twice = [
      { callId: callIds[0], decision: 'approve' },
      { callId: callIds[0], decision: 'deny' },
    ];
    expect(await decide(approvalId, twice)).toMatchObject({
      status: 422,
      body: { errors: [{ path: '/decisions/1/callId' }] },
    });
    expect((await get(`/v1/runs/${runId}`)).body.status).toBe('waiting_approval');
  });

  it('is void when its run is cancelled', async () => {
    const { approvalId, callIds, runId } = await waiting(1);
    const cancelled = await gateway.send('POST', `/v1/runs/${runId}/cancel`, { key: tenant.key });
    expect(cancelled.body).toMatchObject({ status: 'cancelled' });
    expect((await get(`/v1/approvals/${approvalId}`)).body.status).toBe('void');
    expect((await decide(approvalId, [{ callId: callIds[0], decision: 'approve' }])).status).toBe(409);
  });
});
