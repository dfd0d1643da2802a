import { randomUUID } from 'node:crypto';
import { createTestStore, TEST_CONFIG, type TestTenant, testEvent, testTenant } from '@codedock/testkit';
import type { Store } from './contract.js';

describe('approvals', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;

  beforeAll(async () => {
    ({ store, close } = await createTestStore());
    tenant = await testTenant(store);
  });
  afterAll(() => close());

  async function parked(count: number, creatorMayApprove = true, expiresAt?: Date) {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId, { config: { ...TEST_CONFIG, creatorMayApprove } });
    await tenant.lease(run.id);
    const where = { runId: run.id, sessionId };
    const turn = await tenant.turnWithCalls(where, 1, count);
    const approvalId = randomUUID();
    const left = await tenant.park(where, 1, turn, approvalId, expiresAt);
    return { ...where, ...turn, approvalId, left };
  }
  const statesOf = async (runId: string) =>
    (await store.toolCalls.list(tenant.tenantId, runId)).map((call) => call.state);

  it('parks a run without lease or worker, calls awaiting, and says so', async () => {
    const { runId, approvalId, left, sessionId } = await parked(2);
    expect(left.end).toBeUndefined();
    expect(left.events.map((event) => event.type)).toEqual(['tool.approval_required', 'run.state_changed']);
    expect(await statesOf(runId)).toEqual(['awaiting_approval', 'awaiting_approval']);
    expect(await store.runs.get(tenant.tenantId, runId)).toMatchObject({ status: 'waiting_approval', approvalId });
    expect(await store.runs.takeLease(runId, 15_000)).toEqual({ kind: 'nothing' });
    await expect(store.ledger.append(tenant.delta(sessionId, { runId, token: 1 }))).rejects.toMatchObject({
      code: 'lease_lost',
    });
    const [listed] = await store.approvals.list({ tenantId: tenant.tenantId, runId, limit: 5 });
    expect(listed).toEqual(await store.approvals.get(tenant.tenantId, approvalId));
    expect(listed).toMatchObject({ status: 'open', calls: [{ arguments: { index: 0 } }, { arguments: { index: 1 } }] });
  });

  it('resumes the run when the last call is decided; partial decisions are kept', async () => {
    const { runId, approvalId, callIds } = await parked(2);
    const [first, second] = callIds;
    if (first === undefined || second === undefined) throw new Error('no calls');
    const partial = await tenant.decide(approvalId, [first]);
    expect(partial.ring).toBeUndefined();
    expect(partial.events.map((event) => event.type)).toEqual(['tool.approval_decided']);
    expect(await statesOf(runId)).toEqual(['awaiting_approval', 'awaiting_approval']);

    const whole = await store.approvals.decide({
      tenantId: tenant.tenantId,
      approvalId,
      actor: { id: 'k', name: 'second person' },
      decisions: [{ callId: second, decision: 'deny', reason: 'too risky' }],
      eventIds: { decided: randomUUID(), stateChanged: randomUUID() },
    });
    expect(whole.ring).toMatchObject({ runId, doorbell: 2 });
    expect(whole.events.map((event) => event.type)).toEqual(['tool.approval_decided', 'run.state_changed']);
    expect(whole.events[0]?.payload).toEqual({
      approvalId,
      actor: 'second person',
      decisions: [{ callId: second, decision: 'deny', reason: 'too risky' }],
    });
    expect(whole.approval.calls).toMatchObject([
      { decision: 'approve', decidedBy: 'approver' },
      { decision: 'deny', reason: 'too risky', decidedBy: 'second person' },
    ]);
    const snapshot = await tenant.lease(runId);
    expect(snapshot.attempt).toBe(2);
    expect(snapshot.openTurn?.calls).toMatchObject([
      { id: first, state: 'approved' },
      { id: second, state: 'denied', denialReason: 'too risky' },
    ]);
  });

  it('answers the same decision the same, and refuses another', async () => {
    const { approvalId, callIds } = await parked(1);
    const first = await tenant.decide(approvalId, callIds);
    const again = await tenant.decide(approvalId, callIds);
    expect(again.approval).toEqual(first.approval);
    expect(again.events).toEqual([]);
    expect(again.ring).toBeUndefined();
    await expect(tenant.decide(approvalId, callIds, 'deny')).rejects.toMatchObject({ code: 'approval_decided' });
  });

  it('is decided once by many who disagree', async () => {
    const { approvalId, callIds, sessionId } = await parked(1);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 16 }, (_, n) => tenant.decide(approvalId, callIds, n % 2 === 0 ? 'approve' : 'deny')),
    );
    expect(
      outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.ring !== undefined),
    ).toHaveLength(1);
    const events = await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 100 });
    expect(events.filter((event) => event.type === 'tool.approval_decided')).toHaveLength(1);
  });

  it('forbids the creator where the profile does', async () => {
    const { approvalId, callIds } = await parked(1, false);
    const decide = (id: string) =>
      store.approvals.decide({
        tenantId: tenant.tenantId,
        approvalId,
        actor: { id, name: 'someone' },
        decisions: callIds.map((callId) => ({ callId, decision: 'approve' as const })),
        eventIds: { decided: randomUUID(), stateChanged: randomUUID() },
      });
    await expect(decide(tenant.keyId)).rejects.toMatchObject({ code: 'forbidden' });
    await expect(decide('another key')).resolves.toMatchObject({ approval: { status: 'decided' } });
  });

  it('refuses calls it does not hold, and one call twice', async () => {
    const { approvalId, callIds } = await parked(1);
    await expect(tenant.decide(approvalId, [randomUUID()])).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(tenant.decide(approvalId, [...callIds, ...callIds])).rejects.toMatchObject({
      code: 'invalid_request',
    });
    await expect(tenant.decide(randomUUID(), callIds)).rejects.toMatchObject({ code: 'not_found' });
    expect((await store.approvals.get(tenant.tenantId, approvalId)).status).toBe('open');
  });

  it('expires: what is open is denied and the run resumes', async () => {
    const { approvalId, callIds, runId } = await parked(2, true, new Date(Date.now() - 1_000));
    expect((await store.runs.due()).expiredApprovals).toContainEqual({ tenantId: tenant.tenantId, approvalId });
    await tenant.decide(approvalId, callIds.slice(0, 1));
    const expired = await store.approvals.expire(tenant.tenantId, approvalId);
    expect(expired?.ring).toMatchObject({ runId });
    expect(expired?.approval).toMatchObject({
      status: 'expired',
      calls: [{ decision: 'approve' }, { decision: 'deny', decidedBy: 'host' }],
    });
    expect(await statesOf(runId)).toEqual(['approved', 'denied']);
    expect(await store.approvals.expire(tenant.tenantId, approvalId)).toBeUndefined();
  });

  it('does not expire before its time', async () => {
    const { approvalId } = await parked(1);
    expect(await store.approvals.expire(tenant.tenantId, approvalId)).toBeUndefined();
  });

  it('is refused when a call was sealed otherwise', async () => {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id);
    const where = { runId: run.id, sessionId };
    const turn = await tenant.turnWithCalls(where, 1, 1);
    await store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId,
      run: { runId: run.id, token: 1 },
      events: [testEvent('run.started', {})],
      changes: {
        calls: turn.callIds.map((id) => ({
          id,
          state: 'proposed' as const,
          gated: { digest: 'other', gateVersion: 'version', decision: 'ask' as const, reasons: [] },
        })),
      },
    });
    await expect(tenant.park(where, 1, turn)).rejects.toMatchObject({ code: 'seal_broken' });
    expect((await store.runs.get(tenant.tenantId, run.id)).status).toBe('running');
  });
});
