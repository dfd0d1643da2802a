import { randomUUID } from 'node:crypto';
import { isAppError, runEnd } from '@codedock/domain';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

describe('many at once', () => {
  let store: Store;
  let url: string;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;

  beforeAll(async () => {
    ({ store, url, close } = await createTestStore(40));
    tenant = await testTenant(store);
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });

  async function sequence(sessionId: string): Promise<number[]> {
    const events = await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 100_000 });
    return events.map((event) => event.seq);
  }

  it('numbers a session 1, 2, 3 … without a gap under 64 writers, and commits in that order', async () => {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id);
    const writers = Array.from({ length: 64 }, async (_, writer) => {
      for (let n = 0; n < 8; n += 1) {
        const fence = writer % 2 === 0 ? { runId: run.id, token: 1 } : { runId: run.id };
        const batch = tenant.delta(sessionId, fence, `${writer}`);
        const { events } = await store.ledger.append({
          ...batch,
          events: [...batch.events, ...tenant.delta(sessionId, fence).events],
        });
        // What a writer was told is what a reader finds, at once.
        const [first] = events;
        if (first === undefined) throw new Error('nothing was appended');
        const [read] = await store.ledger.since({
          tenantId: tenant.tenantId,
          sessionId,
          after: first.seq - 1,
          limit: 1,
        });
        expect(read).toEqual(first);
      }
    });
    await Promise.all(writers);
    const seqs = await sequence(sessionId);
    expect(seqs).toEqual(Array.from({ length: 2 + 64 * 8 * 2 }, (_, index) => index + 1));
    const { rows } = await observer.query<{ ordered: boolean }>(
      `SELECT bool_and(occurred_at >= before) AS ordered
       FROM (SELECT occurred_at, lag(occurred_at) OVER (ORDER BY seq) AS before FROM events WHERE session_id = $1) AS e`,
      [sessionId],
    );
    expect(rows[0]?.ordered).toBe(true);
  });

  it('never deadlocks among accept, append, park, decide, cancel, leave, hand-back and sweep', async () => {
    const capped = await testTenant(store, 3);
    const sessions = await Promise.all(Array.from({ length: 6 }, () => capped.session()));
    const queued: string[] = [];
    const approvals: { id: string; callIds: readonly string[] }[] = [];
    const refused: unknown[] = [];
    const tolerated = ['session_busy', 'lease_lost', 'run_ended', 'approval_decided'] as const;
    const attempt = async (work: () => Promise<unknown>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        if (!tolerated.some((code) => isAppError(error, code))) refused.push(error);
      }
    };
    const deadlocks = async () => {
      await observer.query('SELECT pg_stat_clear_snapshot()');
      const { rows } = await observer.query<{ deadlocks: string }>(
        'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
      );
      return Number(rows[0]?.deadlocks);
    };
    const before = await deadlocks();
    let seed = 42;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const pick = <T>(from: readonly T[]): T | undefined => from[random(from.length)];
    const accepting = async () => {
      const sessionId = sessions[random(sessions.length)] as string;
      const onBusy = (['reject', 'enqueue', 'interrupt'] as const)[random(3)] ?? 'reject';
      const { run } = await capped.accept(sessionId, { onBusy });
      queued.push(run.id);
    };
    const executing = async () => {
      const runId = pick(queued);
      if (runId === undefined) return;
      const taken = await store.runs.takeLease(runId, 15_000);
      if (taken.kind !== 'leased') return;
      const run = { runId, sessionId: taken.snapshot.sessionId };
      const token = taken.snapshot.attempt;
      await store.ledger.append(capped.delta(run.sessionId, { runId, token }));
      const turn = taken.snapshot.openTurn;
      switch (turn === undefined ? random(4) : random(3)) {
        case 0:
        case 1:
          await capped.end(run, token);
          break;
        case 2:
          await store.runs.handBack(runId, token);
          break;
        default: {
          const made = await capped.turnWithCalls(run, token, 1);
          const id = randomUUID();
          // Not applied where a cancellation came first: then there is no approval to decide.
          const { applied } = await capped.park(run, token, made, id);
          if (applied) approvals.push({ id, callIds: made.callIds });
        }
      }
    };
    const cancelling = async () => {
      const runId = pick(queued);
      if (runId === undefined) return;
      await store.runs.requestCancel({ tenantId: capped.tenantId, runId, actor: 'test' });
      const fenced = await store.runs.fence(runId, { running: random(2) === 0 });
      if (fenced !== undefined) await capped.end(fenced, fenced.token, runEnd('cancelled'));
    };
    const deciding = async () => {
      const approval = pick(approvals);
      if (approval !== undefined) {
        await capped.decide(approval.id, approval.callIds, random(2) === 0 ? 'approve' : 'deny');
      }
    };
    const sweeping = async () => {
      await store.runs.due();
      await store.runs.admit(capped.tenantId);
    };
    const works = [accepting, accepting, executing, executing, executing, cancelling, deciding, sweeping];
    await Promise.all(
      Array.from({ length: 32 }, async () => {
        for (let n = 0; n < 40; n += 1) await attempt(works[random(works.length)] as () => Promise<unknown>);
      }),
    );

    expect(refused).toEqual([]);
    expect(await deadlocks()).toBe(before);
    const { rows } = await observer.query<{ ended: string; ends: string; gaps: string; active: string }>(
      `SELECT (SELECT count(*) FROM runs WHERE tenant_id = $1 AND ended_at IS NOT NULL) AS ended,
         (SELECT count(*) FROM events e JOIN runs r ON r.id = e.run_id WHERE e.tenant_id = $1
            AND e.type IN ('run.completed', 'run.cancelled', 'run.failed', 'run.timed_out', 'run.blocked')) AS ends,
         (SELECT count(*) FROM sessions s WHERE s.tenant_id = $1
            AND s.last_seq <> (SELECT count(*) FROM events e WHERE e.session_id = s.id)) AS gaps,
         (SELECT count(*) FROM runs WHERE tenant_id = $1 AND status = 'waiting_approval') AS active`,
      [capped.tenantId],
    );
    expect(Number(rows[0]?.ended)).toBeGreaterThan(20);
    expect(rows[0]?.ends).toBe(rows[0]?.ended);
    expect(rows[0]?.gaps).toBe('0');
    await store.runs.admit(capped.tenantId);
    const slots = await observer.query<{ in_flight: number; counted: number }>(
      `SELECT in_flight, (SELECT count(*)::int FROM runs WHERE tenant_id = t.id AND status IN ('queued', 'running')) AS counted
       FROM tenants t WHERE id = $1`,
      [capped.tenantId],
    );
    expect(slots.rows[0]?.in_flight).toBe(slots.rows[0]?.counted);
  });

  it('keeps a cap when many come at once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const capped = await testTenant(store, 2);
      const sessions = await Promise.all(Array.from({ length: 6 }, () => capped.session()));
      const accepted = await Promise.all(sessions.map((sessionId) => capped.accept(sessionId)));
      expect(accepted.filter(({ run }) => run.status === 'queued')).toHaveLength(2);
    }
  });

  it('strands nobody who comes while the last slot is given up', async () => {
    for (let round = 0; round < 40; round += 1) {
      const capped = await testTenant(store, 1);
      const [mine, other] = [await capped.session(), await capped.session()];
      const first = await capped.accept(mine);
      await capped.lease(first.run.id);
      const [left, second] = await Promise.all([
        capped.end({ runId: first.run.id, sessionId: mine }, 1),
        capped.accept(other),
      ]);
      // Queued by itself, or pending and let in by the one that left: rung once either way.
      expect([...left.rings, ...(second.ring === undefined ? [] : [second.ring])]).toMatchObject([
        { runId: second.run.id },
      ]);
    }
  });

  it('gives an idle session to one of many accepts', async () => {
    const sessionId = await tenant.session();
    const outcomes = await Promise.allSettled(Array.from({ length: 24 }, () => tenant.accept(sessionId)));
    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'session_busy' });
    }
  });

  it('orders many enqueued accepts behind the one that is active', async () => {
    const sessionId = await tenant.session();
    const accepted = await Promise.all(
      Array.from({ length: 24 }, () => tenant.accept(sessionId, { onBusy: 'enqueue' })),
    );
    const byPlace = accepted.map(({ run }) => run).sort((a, b) => a.firstSeq - b.firstSeq);
    expect(byPlace.map((run) => run.status)).toEqual(['queued', ...Array<string>(23).fill('pending')]);
    const positions = byPlace.slice(1).map((run) => run.position ?? 0);
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
  });

  it('interrupts from many sides without a lost run', async () => {
    const sessionId = await tenant.session();
    const first = await tenant.accept(sessionId);
    const accepted = await Promise.all(
      Array.from({ length: 12 }, () => tenant.accept(sessionId, { onBusy: 'interrupt' })),
    );
    expect(accepted.every(({ run }) => run.status === 'pending')).toBe(true);
    expect(new Set(accepted.map(({ interrupted }) => interrupted))).toEqual(new Set([first.run.id]));
    const run = await store.runs.get(tenant.tenantId, first.run.id);
    expect(run.cancelRequested).toBe(true);
    expect(await store.runs.ending(first.run.id)).toMatchObject({ cancelReason: 'interrupted' });
  });
});
