import { mayMoveCall, TOOL_CALL_STATES } from '@codedock/domain';
import { createTestStore, TEST_SEAL, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { CallChange, ExecutionChange, Store } from './contract.js';

describe('tool calls', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let run: { runId: string; sessionId: string };

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    tenant = await testTenant(store);
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });
  beforeEach(async () => {
    const sessionId = await tenant.session();
    run = { sessionId, runId: (await tenant.accept(sessionId)).run.id };
    await tenant.lease(run.runId);
  });
  async function oneCall(effect: 'pure' | 'effectful' = 'effectful'): Promise<string> {
    const [callId] = (await tenant.turnWithCalls(run, 1, 1, effect)).callIds;
    if (callId === undefined) throw new Error('no call');
    return callId;
  }
  const change = (calls: CallChange[], executions: ExecutionChange[] = []) =>
    store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token: 1 },
      events: [],
      changes: { calls, executions },
    });
  const start = (callId: string, n: number, seal: { digest: string; gateVersion: string } = TEST_SEAL) =>
    change([{ id: callId, state: 'executing', expect: seal }], [{ callId, n, state: 'executing' }]);

  it('does not execute under another seal than the stored one: neither other arguments nor other plugins', async () => {
    const callId = await oneCall();
    await expect(start(callId, 1, { ...TEST_SEAL, digest: 'other' })).rejects.toMatchObject({ code: 'seal_broken' });
    await expect(start(callId, 1, { ...TEST_SEAL, gateVersion: 'other' })).rejects.toMatchObject({
      code: 'seal_broken',
    });
    const before = await store.toolCalls.get(tenant.tenantId, callId);
    expect(before).toMatchObject({ state: 'proposed', executions: 0 });
    await start(callId, 1);
    expect(await store.toolCalls.get(tenant.tenantId, callId)).toMatchObject({ state: 'executing', executions: 1 });
  });

  it('executes an effectful call at most once', async () => {
    const callId = await oneCall();
    await start(callId, 1);
    await expect(start(callId, 1)).rejects.toMatchObject({ code: 'invariant_broken' });
    await expect(start(callId, 2)).rejects.toMatchObject({ code: 'invariant_broken' });
    expect((await store.toolCalls.get(tenant.tenantId, callId)).executions).toBe(1);
  });

  it('executes a pure call again as a further row, but never the same row twice', async () => {
    const callId = await oneCall('pure');
    await start(callId, 1);
    await change([], [{ callId, n: 1, state: 'failed', error: 'no luck' }]);
    await start(callId, 2);
    await expect(start(callId, 2)).rejects.toMatchObject({ code: 'invariant_broken' });
    const { executions } = await store.trace(tenant.tenantId, run.runId);
    expect(executions.map((execution) => execution.state)).toEqual(['failed', 'executing']);
  });

  it('writes a whole batch or nothing of it', async () => {
    const callId = await oneCall();
    const { lastSeq } = await store.runs.get(tenant.tenantId, run.runId);
    await expect(
      store.ledger.append({
        ...tenant.delta(run.sessionId, { runId: run.runId, token: 1 }),
        changes: { calls: [{ id: callId, state: 'executing', expect: { ...TEST_SEAL, digest: 'other' } }] },
      }),
    ).rejects.toMatchObject({ code: 'seal_broken' });
    expect((await store.runs.get(tenant.tenantId, run.runId)).lastSeq).toBe(lastSeq);
  });

  it('moves between states as the domain allows, and keeps a state when a fact of it is added', async () => {
    const own = new Set(['proposed proposed', 'approved approved', 'denied denied', 'executing executing']);
    const { rows } = await observer.query<{ pair: string; may: boolean }>(
      `SELECT f || ' ' || t AS pair, codedock_may_move_call(f, t) AS may
       FROM unnest($1::text[]) AS f, unnest($1::text[]) AS t`,
      [TOOL_CALL_STATES],
    );
    expect(rows).toHaveLength(TOOL_CALL_STATES.length ** 2);
    for (const { pair, may } of rows) {
      const [from, to] = pair.split(' ') as [(typeof TOOL_CALL_STATES)[number], (typeof TOOL_CALL_STATES)[number]];
      expect({ pair, may }).toEqual({ pair, may: mayMoveCall(from, to) || own.has(pair) });
    }
  });

  it('stores one result of a denied call', async () => {
    const callId = await oneCall();
    const denied = { id: callId, state: 'denied', result: { success: false, output: 'denied' } } as const;
    await change([denied]);
    await expect(change([denied])).rejects.toMatchObject({ code: 'invariant_broken' });
  });

  it('refuses a call of another run', async () => {
    const callId = await oneCall();
    const other = await tenant.session();
    const { run: second } = await tenant.accept(other);
    await tenant.lease(second.id);
    await expect(
      store.ledger.append({
        tenantId: tenant.tenantId,
        sessionId: other,
        run: { runId: second.id, token: 1 },
        events: [],
        changes: { calls: [{ id: callId, state: 'executing' }] },
      }),
    ).rejects.toMatchObject({ code: 'invariant_broken' });
  });
});
