import { randomUUID } from 'node:crypto';
import { isAppError, runEnd } from '@codedock/domain';
import type { Notifications } from '@codedock/hooks';
import type { Store } from '@codedock/store';
import {
  createTestStore,
  type RecordedPorts,
  recordedPorts,
  type TestTenant,
  testEvent,
  testTenant,
} from '@codedock/testkit';
import { Client } from 'pg';
import { appendFacts } from './append-facts.js';
import { cancelRun } from './cancel-run.js';
import { decideApproval } from './decide-approval.js';
import { handBackRun } from './hand-back-run.js';
import { endingOf, leaseRun } from './lease-run.js';
import { parkRun } from './park-run.js';
import { reconcileOnce, startReconciler } from './reconcile.js';
import { terminateRun } from './terminate-run.js';

describe('how runs end and go on', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let ports: RecordedPorts;
  let ends: Notifications['onRunEnd'][];
  let sessionId: string;
  let runId: string;

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
    ends = [];
    ports = recordedPorts(store, {
      onRunEnd: (event) => {
        ends.push(event);
      },
    });
    sessionId = await tenant.session();
    runId = (await tenant.accept(sessionId)).run.id;
  });
  const cancel = () => cancelRun(ports, { tenantId: tenant.tenantId, runId, actor: 'ci' });
  const statusOf = async (id = runId) => (await store.runs.get(tenant.tenantId, id)).status;

  describe('cancelling', () => {
    it.each(['queued', 'pending', 'waiting_approval'])(
      'ends a %s run at once, without a runner, and tells onRunEnd',
      async (state) => {
        if (state === 'pending') {
          runId = (await tenant.accept(sessionId, { onBusy: 'enqueue' })).run.id;
        } else if (state === 'waiting_approval') {
          await tenant.lease(runId);
          const turn = await tenant.turnWithCalls({ runId, sessionId }, 1, 1);
          await tenant.park({ runId, sessionId }, 1, turn);
        }
        expect(await statusOf()).toBe(state);
        const ended = await cancel();
        expect(ended).toMatchObject({ status: 'cancelled', stopReason: 'cancelled', by: 'host' });
        expect(ends).toEqual([{ runId, sessionId, status: 'cancelled', stopReason: 'cancelled', metadata: {} }]);
        expect(ports.cancels).toEqual([]);
        expect(ports.pushes.at(-1)?.events?.map((event) => event.type)).toEqual(['run.cancelled']);
        // Again: the same answer, no second end.
        expect(await cancel()).toEqual(ended);
        expect(ends).toHaveLength(1);
      },
    );

    it('lets a runner that listens end the run itself', async () => {
      const leased = await leaseRun(ports, runId, 15_000);
      if (leased.kind !== 'leased') throw new Error(leased.kind);
      await ports.bus.subscribeCancels((push) => {
        expect(push).toEqual({ runId });
        void terminateRun(ports, {
          ending: endingOf(leased.snapshot),
          token: leased.snapshot.attempt,
          end: runEnd('cancelled', { message: 'by the runner' }),
        });
      });
      expect(await cancel()).toMatchObject({ status: 'cancelled', message: 'by the runner', attempt: 1 });
      expect(ends).toHaveLength(1);
    });

    it('fences a runner that hangs after its grace, long before its lease ends, and marks what was executing as unknown', async () => {
      // Beyond the time of the test: that the cancel answers at all is the fence's doing.
      await tenant.lease(runId, 600_000);
      const { callIds } = await tenant.turnWithCalls({ runId, sessionId }, 1, 1);
      const [callId] = callIds;
      if (callId === undefined) throw new Error('no call');
      await appendFacts(ports, {
        tenantId: tenant.tenantId,
        sessionId,
        run: { runId, token: 1 },
        events: [testEvent('tool.execution_started', { callId, tool: 'ping', n: 1, arguments: {} })],
        changes: { calls: [{ id: callId, state: 'executing' }], executions: [{ callId, n: 1, state: 'executing' }] },
      });
      const started = performance.now();
      const ended = await cancel();
      expect(ended).toMatchObject({ status: 'cancelled', attempt: 2 });
      expect(performance.now() - started).toBeGreaterThanOrEqual(690);
      expect((await store.toolCalls.get(tenant.tenantId, callId)).state).toBe('unknown');
      await expect(appendFacts(ports, tenant.delta(sessionId, { runId, token: 1 }))).rejects.toMatchObject({
        code: 'lease_lost',
      });
    });

    it('answers the end that won when the run finished first', async () => {
      const leased = await leaseRun(ports, runId, 15_000);
      if (leased.kind !== 'leased') throw new Error(leased.kind);
      const [view, left] = await Promise.all([
        cancel(),
        terminateRun(ports, { ending: endingOf(leased.snapshot), token: 1, end: runEnd('completed') }),
      ]);
      expect(left).toMatchObject({ applied: true });
      expect(view).toMatchObject({ status: 'completed', stopReason: 'completed' });
    });

    it('by many at once ends the run once', async () => {
      await tenant.lease(runId);
      const views = await Promise.all(Array.from({ length: 6 }, cancel));
      expect(new Set(views.map((view) => view.endedAt)).size).toBe(1);
      const events = await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 50 });
      expect(events.filter((event) => event.type === 'run.cancelled')).toHaveLength(1);
    });

    it('refuses a run that is not there', async () => {
      runId = randomUUID();
      await expect(cancel()).rejects.toMatchObject({ code: 'not_found' });
    });
  });

  it('a fenced-out process ends nothing', async () => {
    const leased = await leaseRun(ports, runId, 15_000);
    if (leased.kind !== 'leased') throw new Error(leased.kind);
    await store.runs.fence(runId, { running: true });
    const late = terminateRun(ports, { ending: endingOf(leased.snapshot), token: 1, end: runEnd('completed') });
    await expect(late).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await statusOf()).toBe('running');
  });

  it('ends a run that loses its lease again and again as crash_loop', async () => {
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      expect((await leaseRun(ports, runId, 0)).kind).toBe('leased');
      await observer.query("UPDATE runs SET lease_until = now() - interval '1 second' WHERE id = $1", [runId]);
    }
    expect(await leaseRun(ports, runId, 15_000)).toEqual({ kind: 'nothing' });
    expect(await store.runs.get(tenant.tenantId, runId)).toMatchObject({ status: 'failed', stopReason: 'crash_loop' });
    expect(ends).toMatchObject([{ stopReason: 'crash_loop' }]);
  });

  it('hands a run back, and parks and resumes it by a decision, each with push and ring', async () => {
    await leaseRun(ports, runId, 15_000);
    expect(await handBackRun(ports, runId, 1)).toBe(true);
    expect(await handBackRun(ports, runId, 1)).toBe(false);
    expect(ports.rings.map((ring) => [ring.runId, ring.doorbell])).toEqual([[runId, 2]]);
    await leaseRun(ports, runId, 15_000);
    const turn = await tenant.turnWithCalls({ runId, sessionId }, 2, 1);
    const approvalId = randomUUID();
    await parkRun(ports, {
      tenantId: tenant.tenantId,
      sessionId,
      run: { runId, token: 2 },
      events: [],
      to: {
        kind: 'waiting_approval',
        approval: {
          id: approvalId,
          turnId: turn.turnId,
          expiresAt: new Date(Date.now() + 60_000).toISOString(),
          calls: turn.callIds.map((callId) => ({
            callId,
            tool: 'ping',
            arguments: {},
            digest: 'digest',
            gateVersion: 'version',
            reasons: [],
          })),
        },
      },
    });
    const view = await decideApproval(ports, {
      tenantId: tenant.tenantId,
      approvalId,
      actor: { id: 'k', name: 'person' },
      decisions: turn.callIds.map((callId) => ({ callId, decision: 'approve' })),
    });
    expect(view.status).toBe('decided');
    expect(ports.rings.at(-1)).toMatchObject({ runId, doorbell: 3 });
    // Everything stored was pushed, in order, once (the test's own turn aside).
    const stored = await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 1, limit: 50 });
    const pushed = ports.pushes.flatMap((push) => push.events ?? []).map((event) => event.seq);
    expect(pushed).toEqual(stored.filter((event) => event.type !== 'turn.started').map((event) => event.seq));
  });

  describe('the reconciler', () => {
    it('rings what nobody came for, ends what its canceller left, expires approvals and admits', async () => {
      const capped = await testTenant(store, 1);
      const first = await capped.accept(await capped.session());
      const second = await capped.accept(await capped.session());
      await store.tenants.setLimits(capped.tenantId, { maxConcurrentRuns: 2 });
      await observer.query("UPDATE runs SET rung_at = now() - interval '6 seconds' WHERE id = ANY($1::uuid[])", [
        [runId, first.run.id],
      ]);
      const abandoned = await tenant.accept(await tenant.session());
      await store.runs.requestCancel({ tenantId: tenant.tenantId, runId: abandoned.run.id, actor: 'gone' });
      await observer.query("UPDATE runs SET cancel_requested_at = now() - interval '3 seconds' WHERE id = $1", [
        abandoned.run.id,
      ]);
      const where = { sessionId: await tenant.session(), runId: randomUUID() };
      await tenant.accept(where.sessionId, { runId: where.runId });
      await tenant.lease(where.runId);
      await tenant.park(where, 1, await tenant.turnWithCalls(where, 1, 1), randomUUID(), new Date(Date.now() - 1_000));

      await reconcileOnce(ports);

      expect(ports.incidents).toEqual([]);
      const rung = ports.rings.map((ring) => ring.runId);
      expect(rung).toEqual(expect.arrayContaining([runId, first.run.id, second.run.id, where.runId]));
      expect(await statusOf(abandoned.run.id)).toBe('cancelled');
      expect(await statusOf(where.runId)).toBe('queued');
    });

    it('works in one process at a time, and the next takes over', async () => {
      const mine = startReconciler(ports, { intervalMs: 20 });
      await until(() => mine.leading);
      const other = startReconciler(recordedPorts(store), { intervalMs: 20 });
      await ports.clock.sleep(100, new AbortController().signal);
      expect(other.leading).toBe(false);
      await mine.stop();
      await until(() => other.leading);
      await other.stop();
      expect(ports.incidents).toEqual([]);
    });

    it('reports what fails and goes on', async () => {
      const broken = {
        ...ports,
        store: {
          ...store,
          runs: { ...store.runs, due: () => Promise.reject(new Error('down')) },
        },
      };
      const reconciler = startReconciler(broken, { intervalMs: 5 });
      await until(() => ports.incidents.length > 1);
      await reconciler.stop();
      expect(ports.incidents[0]).toMatchObject({ kind: 'reconcile_failed' });
      expect(isAppError(ports.incidents[0]?.error)).toBe(false);
    });
  });

  async function until(condition: () => boolean): Promise<void> {
    while (!condition()) await ports.clock.sleep(10, new AbortController().signal);
  }
});
