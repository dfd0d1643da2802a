import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Message, mayMoveCall, runEnd, TOOL_CALL_STATES } from '@codedock/domain';
import { createTestStore, TEST_CONFIG, TEST_SEAL, type TestTenant, testEvent, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';
import type { CallChange, ExecutionChange } from './ledger-contract.js';
import type { ResolveCall } from './tool-call-contract.js';

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
    const own = new Set([
      'proposed proposed',
      'awaiting_approval awaiting_approval',
      'approved approved',
      'denied denied',
      'executing executing',
    ]);
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

  describe('of unknown outcome', () => {
    const UNKNOWN = { success: false, output: 'unknown', error: 'unknown' };
    const toolMessage = (callId: string, turnId: string): Message => ({
      id: callId,
      sessionId: run.sessionId,
      runId: run.runId,
      turnId,
      role: 'tool',
      content: { callId, output: 'unknown' },
      eventSeq: 0,
      createdAt: new Date(0).toISOString(),
    });

    /** Two calls of one turn: the first of unknown outcome, as the model was told; the second not begun. */
    async function unknownCall(told = true) {
      const { turnId, callIds } = await tenant.turnWithCalls(run, 1, 2);
      const [callId, other] = callIds;
      if (callId === undefined || other === undefined) throw new Error('no calls');
      await start(callId, 1);
      if (told) {
        const event = testEvent('tool.outcome_unknown', { callId, tool: 'ping', error: 'gone' }, turnId);
        await store.ledger.append({
          tenantId: tenant.tenantId,
          sessionId: run.sessionId,
          run: { runId: run.runId, token: 1 },
          events: [event],
          changes: {
            calls: [{ id: callId, state: 'unknown', result: UNKNOWN, source: 'host' }],
            executions: [{ callId, n: 1, state: 'unknown' }],
            messages: [{ message: toolMessage(callId, turnId), eventId: event.eventId }],
          },
        });
      }
      return { turnId, callId, other };
    }
    const resolve = (callId: string, state: 'succeeded' | 'failed' | 'approved', more: Partial<ResolveCall> = {}) =>
      store.toolCalls.resolve({
        tenantId: tenant.tenantId,
        callId,
        outcome: state === 'approved' ? 'retry' : state === 'succeeded' ? 'happened' : 'did_not',
        state,
        reason: 'once more',
        actor: { id: 'key', name: 'ann' },
        eventId: randomUUID(),
        ...(state === 'approved' ? {} : { result: { success: state === 'succeeded', output: state }, output: state }),
        ...more,
      });
    const toolTexts = async () =>
      (await store.messages.list({ tenantId: tenant.tenantId, sessionId: run.sessionId, limit: 50 })).flatMap(
        ({ content }) => ('callId' in content ? [content.output] : []),
      );

    it.each(['succeeded', 'failed'] as const)('is resolved once as %s, while its run goes on', async (state) => {
      const { callId } = await unknownCall();
      const events = await resolve(callId, state, { note: 'looked it up' });
      expect(events).toMatchObject([
        { type: 'tool.execution_result', runId: run.runId, payload: { callId, state, source: 'person', by: 'ann' } },
      ]);
      expect(await store.toolCalls.get(tenant.tenantId, callId)).toMatchObject({
        state,
        settledBy: 'ann',
        result: { output: state },
      });
      expect(await toolTexts()).toEqual([state]);
      expect(await resolve(callId, state)).toEqual([]);
      await expect(resolve(callId, state === 'failed' ? 'succeeded' : 'failed')).rejects.toMatchObject({
        code: 'conflict',
      });
      const audit = await observer.query('SELECT actor, action, detail FROM admin_audit WHERE target = $1', [callId]);
      expect(audit.rows).toMatchObject([
        { actor: 'ann', action: 'tool_call.resolved', detail: { note: 'looked it up', runId: run.runId } },
      ]);
    });

    it('is resolved after its run has ended: a fact of the session, and later runs see it', async () => {
      const { callId } = await unknownCall(false);
      await tenant.end(run, 1, runEnd('cancelled'));
      const { lastSeq } = await store.runs.get(tenant.tenantId, run.runId);
      await expect(resolve(callId, 'approved')).rejects.toMatchObject({ code: 'run_ended' });
      const [event] = await resolve(callId, 'succeeded');
      expect(event).toMatchObject({ seq: lastSeq + 1, payload: { callId } });
      expect(event?.runId).toBeUndefined();
      expect((await store.runs.get(tenant.tenantId, run.runId)).lastSeq).toBe(lastSeq);
      const next = await tenant.accept(run.sessionId);
      const { messages } = await tenant.lease(next.run.id);
      expect(messages.map(({ role }) => role)).toEqual(['user', 'tool', 'user']);
    });

    /** Parks the run for the other call of the turn, which may be over by then. */
    async function parkedFor(other: string, turnId: string, status: 'replied' | 'completed') {
      const approvalId = randomUUID();
      const expiresAt = new Date(Date.now() + 60_000).toISOString();
      const calls = [{ callId: other, tool: 'ping', arguments: { index: 1 }, ...TEST_SEAL, reasons: [] }];
      await store.runs.leave({
        tenantId: tenant.tenantId,
        sessionId: run.sessionId,
        run: { runId: run.runId, token: 1 },
        events: [],
        changes: { turns: [{ id: turnId, iteration: 1, status }] },
        to: { kind: 'waiting_approval', approval: { id: approvalId, turnId, calls, expiresAt } },
      });
      return approvalId;
    }

    it.each(['replied', 'completed'] as const)(
      'is tried again, under the same call, when its run waits (its turn is %s)',
      async (status) => {
        const { turnId, callId, other } = await unknownCall();
        await expect(resolve(callId, 'approved')).rejects.toMatchObject({ code: 'conflict' });
        const approvalId = await parkedFor(other, turnId, status);
        expect(await resolve(callId, 'approved')).toMatchObject([
          { type: 'tool.execution_retry', payload: { callId, n: 1, error: 'once more' } },
        ]);
        expect(await resolve(callId, 'approved')).toEqual([]);
        await tenant.decide(approvalId, [other], 'deny');
        const { openTurn, retriedTurns, messages } = await tenant.lease(run.runId);
        const turn = status === 'replied' ? openTurn : retriedTurns?.[0];
        expect(retriedTurns?.length).toBe(status === 'replied' ? undefined : 1);
        const again = turn?.calls.find(({ id }) => id === callId);
        expect(again).toMatchObject({ state: 'approved', executions: 1 });
        expect(again?.result).toBeUndefined();
        expect(messages.map(({ role }) => role)).toEqual(['user']);
        await store.ledger.append({
          tenantId: tenant.tenantId,
          sessionId: run.sessionId,
          run: { runId: run.runId, token: 2 },
          events: [],
          changes: {
            calls: [{ id: callId, state: 'executing', expect: TEST_SEAL }],
            executions: [{ callId, n: 2, state: 'executing' }],
          },
        });
      },
    );

    describe('is listed across sessions', () => {
      const listed = async (more: { sessionId?: string; runId?: string; limit?: number; before?: string } = {}) =>
        (await store.toolCalls.unknown({ tenantId: tenant.tenantId, limit: 50, ...more })).map(({ id }) => id);
      async function elsewhere(told: boolean) {
        const sessionId = await tenant.session();
        run = { sessionId, runId: (await tenant.accept(sessionId)).run.id };
        await tenant.lease(run.runId);
        return { ...run, ...(await unknownCall(told)) };
      }
      // Only what a test makes is listed to it.
      beforeEach(async () => {
        tenant = await testTenant(store);
      });

      it('newest first, a page at a time, until it is resolved', async () => {
        const first = await elsewhere(true);
        const second = await elsewhere(false);
        expect(await listed()).toEqual([first.callId]);
        // The end of a run leaves what was executing.
        await tenant.end(second, 1, runEnd('cancelled'));
        const third = await elsewhere(true);
        expect(await listed()).toEqual([third.callId, second.callId, first.callId]);
        expect(await listed({ limit: 1, before: third.callId })).toEqual([second.callId]);
        expect(await listed({ sessionId: first.sessionId })).toEqual([first.callId]);
        expect(await listed({ runId: third.runId })).toEqual([third.callId]);
        expect(await listed({ before: 'x' })).toEqual([]);
        const [call] = await store.toolCalls.unknown({ tenantId: tenant.tenantId, limit: 1 });
        expect(call).toEqual(await store.toolCalls.get(tenant.tenantId, third.callId));
        expect(call).toMatchObject({ sessionId: third.sessionId, state: 'unknown', createdAt: expect.any(String) });

        await resolve(second.callId, 'failed');
        expect(await listed()).toEqual([third.callId, first.callId]);
        // A page begins after a call that was resolved meanwhile.
        expect(await listed({ before: second.callId })).toEqual([first.callId]);
        const stranger = await testTenant(store);
        expect(await store.toolCalls.unknown({ tenantId: stranger.tenantId, limit: 5 })).toEqual([]);
        await observer.query('DELETE FROM sessions WHERE id = $1', [first.sessionId]);
        expect(await listed()).toEqual([third.callId]);
      });

      it('not while it is to be tried again, and again when it was not', async () => {
        const { turnId, callId, other } = await elsewhere(true);
        await parkedFor(other, turnId, 'replied');
        await resolve(callId, 'approved');
        expect(await listed()).toEqual([]);
        const fenced = await store.runs.fence(run.runId, { running: false });
        await tenant.end(run, fenced?.token ?? 0, runEnd('cancelled'));
        expect(await listed()).toEqual([callId]);
      });

      it('also when it is from before there was a list', async () => {
        await observer.query('ALTER TABLE tool_calls DISABLE TRIGGER tool_calls_list_unknown');
        const former = await elsewhere(true).finally(() =>
          observer.query('ALTER TABLE tool_calls ENABLE TRIGGER tool_calls_list_unknown'),
        );
        const newer = await elsewhere(true);
        expect(await listed()).toEqual([newer.callId]);
        const migrations = path.resolve(__dirname, '../../../prisma/migrations');
        const migration = path.join(migrations, '20261209000002_former_unknown_calls/migration.sql');
        await observer.query(readFileSync(migration, 'utf8'));
        expect(await listed()).toEqual([newer.callId, former.callId]);
      });
    });

    describe('where the creator of a run may not approve', () => {
      async function strictCall() {
        const sessionId = await tenant.session();
        const accepted = await tenant.accept(sessionId, { config: { ...TEST_CONFIG, creatorMayApprove: false } });
        run = { runId: accepted.run.id, sessionId };
        await tenant.lease(run.runId);
        return unknownCall();
      }
      const creator = () => ({ actor: { id: tenant.keyId, name: 'creator' } });

      it('is not tried again on his word, as it is not approved by it, but on another’s', async () => {
        const { turnId, callId, other } = await strictCall();
        const approvalId = await parkedFor(other, turnId, 'replied');
        const refusal = { code: 'forbidden', message: expect.stringContaining('another key must') };
        await expect(
          store.approvals.decide({
            tenantId: tenant.tenantId,
            approvalId,
            ...creator(),
            decisions: [{ callId: other, decision: 'approve' }],
            eventIds: { decided: randomUUID(), stateChanged: randomUUID() },
          }),
        ).rejects.toMatchObject(refusal);
        await expect(resolve(callId, 'approved', creator())).rejects.toMatchObject(refusal);
        expect(await store.toolCalls.get(tenant.tenantId, callId)).toMatchObject({ state: 'unknown', executions: 1 });
        expect(await resolve(callId, 'approved')).toHaveLength(1);
      });

      it.each(['succeeded', 'failed'] as const)('is %s on his word: that executes nothing', async (state) => {
        const { callId } = await strictCall();
        expect(await resolve(callId, state, creator())).toHaveLength(1);
      });
    });

    it('is unknown again when its run ends before it was tried', async () => {
      const { turnId, callId, other } = await unknownCall();
      await parkedFor(other, turnId, 'replied');
      await resolve(callId, 'approved');
      const fenced = await store.runs.fence(run.runId, { running: false });
      await tenant.end(run, fenced?.token ?? 0, runEnd('cancelled'));
      const states = await store.toolCalls.list(tenant.tenantId, run.runId);
      expect(states.map(({ state }) => state)).toEqual(['unknown', 'cancelled']);
      expect(await resolve(callId, 'failed')).toHaveLength(1);
    });

    it('is decided once by many who disagree', async () => {
      const { callId } = await unknownCall();
      const words = Array.from({ length: 12 }, (_, n) => resolve(callId, n % 2 === 0 ? 'succeeded' : 'failed'));
      const outcomes = await Promise.allSettled(words);
      expect(outcomes.filter((one) => one.status === 'fulfilled' && one.value.length > 0)).toHaveLength(1);
      expect(outcomes.filter((one) => one.status === 'rejected')).toHaveLength(6);
    });

    it('is nobody else’s', async () => {
      const { callId } = await unknownCall();
      const stranger = await testTenant(store);
      await expect(resolve(callId, 'failed', { tenantId: stranger.tenantId })).rejects.toMatchObject({
        code: 'not_found',
      });
    });
  });
});
