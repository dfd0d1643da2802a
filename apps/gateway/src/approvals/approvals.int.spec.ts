import { createHash, randomUUID } from 'node:crypto';
import { BUILT_IN_TOOLS, digestOf, type JsonValue, sealDigest } from '@codedock/domain';
import {
  createTestDatabase,
  expectNoLeftovers,
  openEventStream,
  TestTenant as StoreTenant,
  TEST_CONFIG,
  type TestDatabase,
} from '@codedock/testkit';
import { Client } from 'pg';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let observer: Client;

beforeAll(async () => {
  database = await createTestDatabase();
  observer = new Client({ connectionString: database.url });
  await observer.connect();
  gateway = await startTestGateway(database.url);
  tenant = await gateway.tenant('approvals');
});

afterAll(async () => {
  await observer.end();
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

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** A run that waits for a call of a built-in tool, sealed as runners seal it. */
async function waitingFor(tool: string, args: JsonValue, schema?: string) {
  const parameters = BUILT_IN_TOOLS.find(({ name }) => name === tool)?.parameters ?? {};
  const digest = sealDigest(sha256, { tool, schemaDigest: schema ?? digestOf(sha256, parameters), arguments: args });
  const inStore = new StoreTenant(gateway.store, tenant.id);
  const sessionId = await inStore.session();
  const { run } = await inStore.accept(sessionId);
  const { attempt } = await inStore.lease(run.id);
  const [turnId, callId, approvalId] = [randomUUID(), randomUUID(), randomUUID()];
  const gated = { digest, gateVersion: 'v', decision: 'ask', reasons: [] } as const;
  await gateway.store.runs.leave({
    tenantId: tenant.id,
    sessionId,
    run: { runId: run.id, token: attempt },
    events: [],
    changes: {
      turns: [{ id: turnId, iteration: 1, status: 'replied', tools: [tool] }],
      calls: [
        { id: callId, turnId, index: 0, state: 'proposed', name: tool, arguments: args, effect: 'effectful', gated },
      ],
    },
    to: {
      kind: 'waiting_approval',
      approval: {
        id: approvalId,
        turnId,
        expiresAt: new Date(Date.now() + 60_000).toISOString(),
        calls: [{ callId, tool, arguments: args, digest, gateVersion: 'v', reasons: [] }],
      },
    },
  });
  return { sessionId, runId: run.id, approvalId, callId };
}
const memory = { name: 'colour', text: 'blue' };

describe('edited arguments', () => {
  it('are held to the schema, sealed, and are the call’s from then on', async () => {
    const { approvalId, callId } = await waitingFor('memory_write', memory);
    const edit = (edited: object) => decide(approvalId, [{ callId, decision: 'approve', arguments: edited }]);
    expect(await edit({ name: 'colour' })).toMatchObject({
      status: 422,
      body: { code: 'invalid_request', errors: [{ path: '/decisions/0/arguments' }] },
    });
    const decided = await edit({ ...memory, text: 'green' });
    expect(decided).toMatchObject({
      status: 200,
      body: { status: 'decided', calls: [{ arguments: memory, editedArguments: { text: 'green' }, scope: 'once' }] },
    });
    expect((await edit({ ...memory, text: 'green' })).body).toEqual(decided.body);
    expect(await edit({ ...memory, text: 'red' })).toMatchObject({ status: 409, body: { code: 'approval_decided' } });
    expect((await get(`/v1/tool-calls/${callId}`)).body).toMatchObject({
      state: 'approved',
      arguments: { text: 'green' },
      approvalId,
      gated: { digest: decided.body.calls[0].editedDigest },
    });
  });

  it('of a tool that nobody knows now cannot be judged, and nothing is decided', async () => {
    const { approvalId, callId, runId } = await waitingFor('gone', {});
    const answer = await decide(approvalId, [{ callId, decision: 'approve', arguments: { a: 1 } }]);
    expect(answer).toMatchObject({ status: 409, body: { code: 'conflict' } });
    expect((await get(`/v1/runs/${runId}`)).body.status).toBe('waiting_approval');
    expect((await decide(approvalId, [{ callId, decision: 'approve' }])).status).toBe(200);
  });
});

describe('a wider scope', () => {
  it('is stored, listed and revoked with its session', async () => {
    const { approvalId, callId, sessionId, runId } = await waitingFor('memory_write', memory);
    const decided = await decide(approvalId, [{ callId, decision: 'approve', scope: 'session' }]);
    expect(decided.body).toMatchObject({ calls: [{ scope: 'session' }] });
    const grants = async () => (await get(`/v1/sessions/${sessionId}/grants`)).body.items;
    const given = { tool: 'memory_write', scope: 'session', approvalId, callId, grantedBy: expect.any(String) };
    expect(await grants()).toEqual([{ ...given, id: expect.any(String), sessionId, createdAt: expect.any(String) }]);
    await gateway.send('POST', `/v1/runs/${runId}/cancel`, { key: tenant.key });
    await gateway.send('POST', `/v1/sessions/${sessionId}/archive`, { key: tenant.key });
    expect(await grants()).toMatchObject([{ ...given, revokedAt: expect.any(String) }]);
    expect((await gateway.send('GET', `/v1/sessions/${randomUUID()}/grants`, { key: tenant.key })).status).toBe(404);
  });

  it('is refused for a tool whose schema is another by now', async () => {
    const { approvalId, callId } = await waitingFor('memory_write', memory, 'an older schema');
    const answer = await decide(approvalId, [{ callId, decision: 'approve', scope: 'run' }]);
    expect(answer).toMatchObject({ status: 409, body: { code: 'conflict' } });
  });
});

it('fifty clicks at once are one decision', async () => {
  const { approvalId, callIds, sessionId } = await waiting(2);
  const decisions = callIds.map((callId) => ({ callId, decision: 'approve' }));
  const answers = await Promise.all(Array.from({ length: 50 }, () => decide(approvalId, decisions)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  const { items } = (await get(`/v1/sessions/${sessionId}/event-log`)).body;
  const decided = items.filter(({ type }: { type: string }) => type === 'tool.approval_decided');
  expect(decided).toHaveLength(1);
});

describe('four eyes', () => {
  it('the creator of a run may not decide where the profile forbids it; another key may', async () => {
    const { approvalId, callIds, runId } = await waiting(1);
    const strict = { ...TEST_CONFIG, creatorMayApprove: false };
    await observer.query('UPDATE runs SET config = $2, created_by = $3 WHERE id = $1', [runId, strict, tenant.keyId]);
    const decisions = [{ callId: callIds[0], decision: 'approve' }];
    expect(await decide(approvalId, decisions)).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    const { key } = await tenant.newKey(['approvals']);
    expect(await decide(approvalId, decisions, key)).toMatchObject({
      status: 200,
      body: { calls: [{ decidedBy: expect.stringContaining('key-') }] },
    });
  });
});

describe('a call of unknown outcome', () => {
  async function unknown(owner = tenant) {
    const inStore = new StoreTenant(gateway.store, owner.id);
    const sessionId = await inStore.session();
    const { run } = await inStore.accept(sessionId);
    const target = { runId: run.id, sessionId };
    await inStore.lease(run.id);
    const { callIds } = await inStore.turnWithCalls(target, 1, 1);
    const callId = callIds[0] ?? '';
    await gateway.store.ledger.append({
      tenantId: owner.id,
      sessionId,
      run: { runId: run.id, token: 1 },
      events: [],
      changes: {
        calls: [{ id: callId, state: 'executing' }],
        executions: [{ callId, n: 1, state: 'executing' }],
      },
    });
    await inStore.end(target, 1);
    return { ...target, callId };
  }
  const resolve = (callId: string, body: object, key = tenant.key) =>
    gateway.send('POST', `/v1/tool-calls/${callId}/resolve`, { key, body });

  it('is resolved by a person with the scope, once, and the session is told at once', async () => {
    const { callId, sessionId } = await unknown();
    const stream = await openEventStream(`${gateway.url}/v1/sessions/${sessionId}/events`, {
      headers: { authorization: `Bearer ${tenant.key}` },
    });
    const { key } = await tenant.newKey(['runs']);
    expect((await resolve(callId, { outcome: 'happened' }, key)).status).toBe(403);
    const happened = { outcome: 'happened', output: { receipt: 7 }, note: 'seen in the books' };
    const resolved = await resolve(callId, happened);
    expect(resolved).toMatchObject({
      status: 200,
      body: { id: callId, state: 'succeeded', result: { success: true, output: { receipt: 7 } } },
    });
    const frame = await stream.waitFor(
      (one) => one.event === 'tool.execution_result' && JSON.parse(one.data).payload.source === 'person',
      1_500,
    );
    expect(JSON.parse(frame.data).runId).toBeUndefined();
    stream.close();
    await stream.over;
    expect((await resolve(callId, happened)).body).toEqual(resolved.body);
    expect(await resolve(callId, { outcome: 'did_not' })).toMatchObject({ status: 409, body: { code: 'conflict' } });
    const told = (await get(`/v1/sessions/${sessionId}/messages`)).body.items.at(-1);
    expect(told).toMatchObject({ role: 'tool', content: { callId, output: { receipt: 7 } } });
  });

  it('is listed across sessions, a page at a time, to approvers and runners of its tenant, until it is resolved', async () => {
    const owner = await gateway.tenant('unknown');
    const first = await unknown(owner);
    const second = await unknown(owner);
    const list = (query: string, key = owner.key) => gateway.send('GET', `/v1/tool-calls?${query}`, { key });
    const page = await list('state=unknown&limit=1');
    expect(page).toMatchObject({
      status: 200,
      body: { items: [{ id: second.callId, sessionId: second.sessionId, runId: second.runId, state: 'unknown' }] },
    });
    expect((await list(`state=unknown&limit=1&cursor=${page.body.nextCursor}`)).body).toMatchObject({
      items: [{ id: first.callId }],
      nextCursor: null,
    });
    expect((await list(`state=unknown&sessionId=${first.sessionId}`)).body.items).toMatchObject([{ id: first.callId }]);
    expect(page.body.items[0]).toEqual(
      (await gateway.send('GET', `/v1/tool-calls/${second.callId}`, { key: owner.key })).body,
    );
    await resolve(second.callId, { outcome: 'did_not' }, owner.key);
    const { key: approver } = await owner.newKey(['approvals']);
    expect((await list('state=unknown', approver)).body.items).toMatchObject([{ id: first.callId }]);
    const { key: admin } = await owner.newKey(['admin']);
    expect((await list('state=unknown', admin)).status).toBe(403);
    const stranger = await gateway.tenant('stranger to the unknown');
    expect((await list('state=unknown', stranger.key)).body).toEqual({ items: [], nextCursor: null });
    for (const query of ['', 'state=executing', 'state=unknown&limit=0', 'state=unknown&cursor=x']) {
      expect(await list(query)).toMatchObject({ status: 422, body: { code: 'invalid_request' } });
    }
  });

  it('is not tried again after its run, and takes no field that does not go with the outcome', async () => {
    const { callId } = await unknown();
    expect(await resolve(callId, { outcome: 'retry' })).toMatchObject({ status: 409, body: { code: 'run_ended' } });
    expect(await resolve(callId, { outcome: 'did_not', output: 1 })).toMatchObject({
      status: 422,
      body: { errors: [{ path: '/output' }] },
    });
    const stranger = await gateway.tenant('stranger');
    expect((await resolve(callId, { outcome: 'did_not' }, stranger.key)).status).toBe(404);
    expect((await gateway.send('GET', `/v1/tool-calls/${callId}`, { key: stranger.key })).status).toBe(404);
    expect((await resolve(callId, { outcome: 'did_not' })).body).toMatchObject({ state: 'failed' });
  });

  it('is not tried again on the word of the creator of its run where the profile forbids him to approve', async () => {
    const { callId, runId } = await unknown();
    const strict = { ...TEST_CONFIG, creatorMayApprove: false };
    await observer.query('UPDATE runs SET config = $2, created_by = $3 WHERE id = $1', [runId, strict, tenant.keyId]);
    expect(await resolve(callId, { outcome: 'retry' })).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    expect(await resolve(callId, { outcome: 'happened' })).toMatchObject({ status: 200, body: { state: 'succeeded' } });
  });
});
