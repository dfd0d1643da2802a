import { randomUUID } from 'node:crypto';
import { createTestStore, TEST_CONFIG, type TestTenant, testEvent, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { SealedDecision } from './approval-contract.js';
import type { Store } from './contract.js';

describe('approvals', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;

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
    const { approvalId, callIds, runId } = await parked(2);
    await tenant.decide(approvalId, callIds.slice(0, 1));
    await observer.query("UPDATE approvals SET expires_at = now() - interval '1 second' WHERE id = $1", [approvalId]);
    expect((await store.runs.due()).expiredApprovals).toContainEqual({ tenantId: tenant.tenantId, approvalId });
    // Its time is over, whether or not the sweep has come by.
    await expect(tenant.decide(approvalId, callIds.slice(1))).rejects.toMatchObject({ code: 'approval_decided' });
    const expired = await store.approvals.expire(tenant.tenantId, approvalId);
    expect(expired?.ring).toMatchObject({ runId });
    expect(expired?.approval).toMatchObject({
      status: 'expired',
      calls: [{ decision: 'approve' }, { decision: 'deny', decidedBy: 'host' }],
    });
    expect(await statesOf(runId)).toEqual(['approved', 'denied']);
    expect((await tenant.lease(runId)).openTurn?.calls[1]).toMatchObject({ settledBy: 'host' });
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

  const word = (approvalId: string, decisions: SealedDecision[], id = 'approver') =>
    store.approvals.decide({
      tenantId: tenant.tenantId,
      approvalId,
      actor: { id, name: `name of ${id}` },
      decisions,
      eventIds: { decided: randomUUID(), stateChanged: randomUUID() },
    });
  const only = <T>([first]: readonly T[]): T => {
    if (first === undefined) throw new Error('there is none');
    return first;
  };

  describe('edited arguments', () => {
    it('become the call’s under a seal of their own, and the gate is asked again', async () => {
      const { approvalId, callIds, runId } = await parked(1);
      const edit = { callId: only(callIds), decision: 'approve', arguments: { index: 7 }, digest: 'new seal' } as const;
      const { approval, events } = await word(approvalId, [edit]);
      expect(approval.calls).toMatchObject([
        { arguments: { index: 0 }, digest: 'digest', editedArguments: { index: 7 }, editedDigest: 'new seal' },
      ]);
      expect(events[0]?.payload).toEqual({
        approvalId,
        actor: 'name of approver',
        decisions: [{ callId: only(callIds), decision: 'approve', arguments: { index: 7 } }],
      });
      const snapshot = await tenant.lease(runId);
      expect(snapshot.openTurn?.calls).toMatchObject([
        {
          state: 'approved',
          arguments: { index: 7 },
          gated: { digest: 'new seal', gateVersion: 'edited', decision: 'ask' },
          approvalId,
          editedArguments: { index: 7 },
        },
      ]);
    });

    it('are known of the calls they were made to, and of no other', async () => {
      const { approvalId, callIds, runId } = await parked(2);
      const edit = { callId: only(callIds), decision: 'approve', arguments: { index: 7 }, digest: 'new seal' } as const;
      await word(approvalId, [edit]);
      await tenant.decide(approvalId, callIds.slice(1));
      const { openTurn } = await tenant.lease(runId);
      expect(openTurn?.calls.map((call) => call.editedArguments)).toEqual([{ index: 7 }, undefined]);
    });

    it('are part of the decision: the same again is the same, others are another', async () => {
      const { approvalId, callIds } = await parked(2);
      const edit = (index: number) =>
        ({ callId: only(callIds), decision: 'approve', arguments: { index }, digest: `seal ${index}` }) as const;
      const first = await word(approvalId, [edit(7)]);
      expect((await word(approvalId, [edit(7)])).approval).toEqual(first.approval);
      await expect(word(approvalId, [edit(8)])).rejects.toMatchObject({ code: 'approval_decided' });
      await expect(tenant.decide(approvalId, callIds.slice(0, 1))).rejects.toMatchObject({ code: 'approval_decided' });
      const { approval } = await tenant.decide(approvalId, callIds.slice(1));
      expect(approval.status).toBe('decided');
    });
  });

  describe('wider scopes', () => {
    const grantsOf = async (runId: string) => (await tenant.lease(runId)).grants;
    const granting = (callIds: readonly string[], scope: 'run' | 'session'): SealedDecision[] => [
      { callId: only(callIds), decision: 'approve', scope, schemaDigest: 'schema' },
    ];

    it('run: reach the run, not the next one of the session', async () => {
      const { approvalId, callIds, runId, sessionId } = await parked(1);
      const { approval } = await word(approvalId, granting(callIds, 'run'));
      expect(approval.calls).toMatchObject([{ scope: 'run' }]);
      expect(await grantsOf(runId)).toEqual([{ tool: 'ping', schemaDigest: 'schema' }]);
      await tenant.end({ runId, sessionId }, 2);
      const next = await tenant.accept(sessionId);
      expect(await grantsOf(next.run.id)).toBeUndefined();
    });

    it('session: reach its later runs, no other session, and end with its archive', async () => {
      const { approvalId, callIds, runId, sessionId } = await parked(1);
      await word(approvalId, granting(callIds, 'session'));
      await tenant.lease(runId);
      await tenant.end({ runId, sessionId }, 2);
      const next = await tenant.accept(sessionId);
      expect(await grantsOf(next.run.id)).toEqual([{ tool: 'ping', schemaDigest: 'schema' }]);
      const other = await tenant.accept(await tenant.session());
      expect(await grantsOf(other.run.id)).toBeUndefined();
      await tenant.end({ runId: next.run.id, sessionId }, 1);
      const given = {
        approvalId,
        callId: only(callIds),
        tool: 'ping',
        scope: 'session',
        grantedBy: 'name of approver',
      };
      expect(await store.approvals.grants(tenant.tenantId, sessionId)).toMatchObject([given]);
      await store.sessions.archive(tenant.tenantId, sessionId);
      expect(await store.approvals.grants(tenant.tenantId, sessionId)).toMatchObject([
        { ...given, revokedAt: expect.any(String) },
      ]);
      expect(await store.approvals.grants((await testTenant(store)).tenantId, sessionId)).toEqual([]);
    });

    it('do not let the creator of a later run approve it, where its profile forbids that', async () => {
      const { approvalId, callIds, runId, sessionId } = await parked(1);
      await word(approvalId, granting(callIds, 'session'), tenant.keyId);
      await tenant.lease(runId);
      await tenant.end({ runId, sessionId }, 2);
      const strict = await tenant.accept(sessionId, { config: { ...TEST_CONFIG, creatorMayApprove: false } });
      expect(await grantsOf(strict.run.id)).toBeUndefined();
    });

    it('are part of the decision', async () => {
      const { approvalId, callIds } = await parked(1);
      await word(approvalId, granting(callIds, 'run'));
      await word(approvalId, granting(callIds, 'run'));
      await expect(word(approvalId, granting(callIds, 'session'))).rejects.toMatchObject({ code: 'approval_decided' });
    });
  });

  it('reminds once, when a share of its life is over', async () => {
    const early = await parked(1);
    const { approvalId, sessionId, callIds } = await parked(1, true, new Date(Date.now() + 3_600_000));
    await observer.query("UPDATE approvals SET created_at = created_at - interval '2 hours' WHERE id = $1", [
      approvalId,
    ]);
    const due = async (share: number) => (await store.approvals.dueReminders(share)).map((one) => one.approvalId);
    expect(await due(0.9)).not.toContain(approvalId);
    expect(await due(0.5)).toContain(approvalId);
    expect(await due(0.5)).not.toContain(early.approvalId);
    const both = await Promise.all([1, 2].map(() => store.approvals.remind(tenant.tenantId, approvalId)));
    expect(both.flat()).toMatchObject([{ type: 'tool.approval_reminder', sessionId, payload: { approvalId } }]);
    expect(await due(0.5)).not.toContain(approvalId);
    expect(await store.approvals.get(tenant.tenantId, approvalId)).toMatchObject({ remindedAt: expect.any(String) });
    await tenant.decide(early.approvalId, early.callIds);
    expect(await store.approvals.remind(tenant.tenantId, early.approvalId)).toEqual([]);
    await tenant.decide(approvalId, callIds);
  });

  it('is superseded by the approval that a changed call needs', async () => {
    const { approvalId, callIds, runId, sessionId, turnId } = await parked(1);
    await tenant.decide(approvalId, callIds);
    await tenant.lease(runId);
    const callId = only(callIds);
    const gated = { digest: 'other', gateVersion: 'v2', decision: 'ask' as const, reasons: [] };
    const voided = {
      tenantId: tenant.tenantId,
      sessionId,
      run: { runId, token: 2 },
      events: [],
      changes: { calls: [{ id: callId, state: 'awaiting_approval' as const, arguments: { index: 9 }, gated }] },
    };
    await store.ledger.append(voided);
    const calls = [{ callId, tool: 'ping', arguments: { index: 9 }, digest: 'other', gateVersion: 'v2', reasons: [] }];
    const next = randomUUID();
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const { events } = await store.runs.leave({
      ...voided,
      changes: {},
      to: { kind: 'waiting_approval', approval: { id: next, turnId, calls, expiresAt, supersedes: approvalId } },
    });
    expect(events[0]?.payload).toMatchObject({ approvalId: next, supersedes: approvalId });
    expect(await store.approvals.get(tenant.tenantId, approvalId)).toMatchObject({ supersededBy: next });
    expect(await store.toolCalls.get(tenant.tenantId, callId)).toMatchObject({ approvalId: next });
  });
});
