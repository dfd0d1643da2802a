import { randomUUID } from 'node:crypto';
import { isAppError, isTerminal, mayTransition, type RunStatus, runEnd } from '@codedock/domain';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import fc from 'fast-check';
import { Client } from 'pg';
import type { Store } from './contract.js';

type Verdict = 'approve' | 'deny';

/** One step; numbers pick a session or a run among those there are. */
type Step =
  | { readonly kind: 'accept'; readonly session: number; readonly onBusy: 'reject' | 'enqueue' | 'interrupt' }
  | { readonly kind: 'lease' | 'expire' | 'handBack' | 'park' | 'cancel'; readonly run: number }
  | { readonly kind: 'decide'; readonly run: number; readonly calls: readonly number[]; readonly verdict: Verdict }
  | { readonly kind: 'append' | 'finish'; readonly run: number; readonly stale: boolean };

const SESSIONS = 3;
/** Of each turn that asks. */
const CALLS = 2;
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('accept' as const),
      session: fc.nat(SESSIONS - 1),
      onBusy: fc.constantFrom('reject', 'enqueue', 'interrupt'),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('lease', 'lease', 'expire', 'handBack', 'park', 'cancel'),
      run: fc.nat(30),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('decide' as const),
      run: fc.nat(30),
      calls: fc.constantFrom([0], [1], [0, 1]),
      verdict: fc.constantFrom('approve', 'approve', 'deny'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom('append', 'finish'), run: fc.nat(30), stale: fc.boolean() }),
  },
) as fc.Arbitrary<Step>;

interface ModelRun {
  readonly id: string;
  readonly session: number;
  status: RunStatus;
  token: number;
  /** Undefined: nobody holds the lease. */
  lease: 'live' | 'expired' | undefined;
  idle: number;
  cancel: boolean;
  /** The newest one; a verdict for each call, where there is one. */
  approval?: { readonly id: string; readonly callIds: readonly string[]; readonly verdicts: (Verdict | undefined)[] };
  turn?: { readonly turnId: string; readonly callIds: readonly string[] };
}

/** What runs of one tenant are, by the words of the design. */
class Model {
  readonly runs: ModelRun[] = [];
  inFlight = 0;
  constructor(readonly cap: number | undefined) {}

  active(session: number): ModelRun | undefined {
    return this.runs.find(
      (run) => run.session === session && ['queued', 'running', 'waiting_approval'].includes(run.status),
    );
  }
  busy(session: number): boolean {
    return this.active(session) !== undefined || this.pending(session) !== undefined;
  }
  pending(session: number): ModelRun | undefined {
    return this.runs.find((run) => run.session === session && run.status === 'pending');
  }
  slotFree(): boolean {
    return this.cap === undefined || this.inFlight < this.cap;
  }
  /** A run that left gives its place on: its session's next first, then the tenant's oldest of an idle session. */
  admitAfter(session: number, heldSlot: boolean): ModelRun | undefined {
    if (heldSlot) this.inFlight -= 1;
    if (!this.slotFree()) return undefined;
    const own = this.active(session) === undefined ? this.pending(session) : undefined;
    const next =
      own ??
      (this.cap === undefined
        ? undefined
        : this.runs.find(
            (run) => run.status === 'pending' && run.session !== session && this.active(run.session) === undefined,
          ));
    if (next === undefined) return undefined;
    next.status = 'queued';
    this.inFlight += 1;
    return next;
  }
}

describe('the functions against a model of runs', () => {
  let store: Store;
  let close: () => Promise<void>;
  let observer: Client;

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });

  it('agree in every state after every step', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 40 }),
        fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
        async (steps, cap) => {
          const tenant = await testTenant(store, cap);
          const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => tenant.session()));
          const model = new Model(cap);
          for (const next of steps) {
            await take(next, model, tenant, sessions);
            await compare(model, tenant, sessions);
          }
        },
      ),
      // MODEL_RUNS=1000 searches for longer.
      { numRuns: Number(process.env['MODEL_RUNS'] ?? 30) },
    );
  }, 900_000);

  async function take(next: Step, model: Model, tenant: TestTenant, sessions: string[]): Promise<void> {
    if (next.kind === 'accept') {
      await accept(next, model, tenant, sessions);
      return;
    }
    const run = model.runs[next.run % Math.max(model.runs.length, 1)];
    if (run === undefined) return;
    const where = { runId: run.id, sessionId: sessions[run.session] as string };
    switch (next.kind) {
      case 'lease': {
        const due =
          (run.status === 'queued' && run.lease !== 'live') || (run.status === 'running' && run.lease === 'expired');
        const taken = await store.runs.takeLease(run.id, 3_600_000);
        expect(taken.kind).toBe(!due ? 'nothing' : run.idle >= 5 ? 'crash_loop' : 'leased');
        if (due) move(run, 'running', { token: run.token + 1, lease: 'live', idle: run.idle + 1 });
        return;
      }
      case 'expire':
        await observer.query(
          "UPDATE runs SET lease_until = now() - interval '1 minute' WHERE id = $1 AND lease_until IS NOT NULL",
          [run.id],
        );
        if (run.lease !== undefined) run.lease = 'expired';
        return;
      case 'handBack': {
        const handed = await store.runs.handBack(run.id, run.token);
        const held = run.status === 'running' && run.lease !== undefined;
        expect(handed !== undefined).toBe(held);
        if (held) move(run, 'queued', { lease: undefined, idle: Math.max(run.idle - 1, 0) });
        return;
      }
      case 'append': {
        const token = run.token - (next.stale ? 1 : 0);
        const owns = !next.stale && run.lease !== undefined && !isTerminal(run.status);
        const outcome = await settled(store.ledger.append(tenant.delta(where.sessionId, { runId: run.id, token })));
        expect(outcome).toBe(owns ? 'ok' : 'lease_lost');
        return;
      }
      case 'park': {
        if (run.status !== 'running' || run.lease === undefined) return;
        run.turn ??= await tenant.turnWithCalls(where, run.token, CALLS);
        const calls = await store.toolCalls.list(tenant.tenantId, run.id);
        if (calls.some((call) => call.state !== 'proposed' && call.state !== 'approved')) return;
        const id = randomUUID();
        const left = await tenant.park(where, run.token, run.turn, id);
        move(run, 'waiting_approval', { lease: undefined, idle: 0 });
        run.approval = { id, callIds: run.turn.callIds, verdicts: Array.from({ length: CALLS }) };
        expect(left.rings.map((ring) => ring.runId)).toEqual(idsOf(model.admitAfter(run.session, true)));
        return;
      }
      case 'decide': {
        const { approval } = run;
        if (approval === undefined) return;
        const { calls, verdict } = next;
        const otherwise = calls.some((call) => ![undefined, verdict].includes(approval.verdicts[call]));
        const fresh = calls.filter((call) => approval.verdicts[call] === undefined);
        const taken = !otherwise && (fresh.length === 0 || run.status === 'waiting_approval');
        const callIds = calls.map((call) => approval.callIds[call] as string);
        expect(await settled(tenant.decide(approval.id, callIds, verdict))).toBe(taken ? 'ok' : 'approval_decided');
        if (!taken || fresh.length === 0) return;
        for (const call of fresh) approval.verdicts[call] = verdict;
        if (approval.verdicts.includes(undefined)) return;
        move(run, 'queued', {});
        model.inFlight += 1;
        return;
      }
      case 'cancel': {
        await store.runs.requestCancel({ tenantId: tenant.tenantId, runId: run.id, actor: 'test' });
        const fenced = await store.runs.fence(run.id, { running: true });
        expect(fenced !== undefined).toBe(!isTerminal(run.status));
        if (fenced === undefined) return;
        run.token += 1;
        expect(fenced).toMatchObject({ token: run.token, cancelReason: run.cancel ? 'interrupted' : 'cancelled' });
        const left = await tenant.end(where, fenced.token, runEnd('cancelled'));
        finish(model, run, 'cancelled', left.rings);
        return;
      }
      case 'finish': {
        const token = run.token - (next.stale ? 1 : 0);
        const ended = isTerminal(run.status);
        const owns = !next.stale && run.lease !== undefined;
        try {
          const left = await tenant.end(where, token, runEnd('completed'));
          expect(left.applied).toBe(!ended);
          expect(ended || owns).toBe(true);
          if (!ended) finish(model, run, 'completed', left.rings);
        } catch (error) {
          expect(isAppError(error, 'lease_lost')).toBe(true);
          expect(ended || owns).toBe(false);
        }
      }
    }
  }

  async function accept(
    next: Extract<Step, { kind: 'accept' }>,
    model: Model,
    tenant: TestTenant,
    sessions: string[],
  ): Promise<void> {
    const sessionId = sessions[next.session] as string;
    const active = model.active(next.session);
    const busy = model.busy(next.session);
    const id = randomUUID();
    if (busy && next.onBusy === 'reject') {
      expect(await settled(tenant.accept(sessionId, { runId: id }))).toBe('session_busy');
      return;
    }
    const accepted = await tenant.accept(sessionId, { runId: id, onBusy: next.onBusy });
    const status = busy || !model.slotFree() ? 'pending' : 'queued';
    expect(accepted.run.status).toBe(status);
    expect(accepted.ring !== undefined).toBe(status === 'queued');
    expect(accepted.interrupted).toBe(next.onBusy === 'interrupt' ? active?.id : undefined);
    if (next.onBusy === 'interrupt' && active !== undefined) active.cancel = true;
    if (status === 'queued') model.inFlight += 1;
    model.runs.push({ id, session: next.session, status, token: 0, lease: undefined, idle: 0, cancel: false });
  }

  function move(run: ModelRun, to: RunStatus, changes: Partial<ModelRun>): void {
    if (run.status !== to) expect(mayTransition(run.status, to)).toBe(true);
    Object.assign(run, changes, { status: to });
  }

  function finish(model: Model, run: ModelRun, to: RunStatus, rings: readonly { runId: string }[]): void {
    const heldSlot = run.status === 'queued' || run.status === 'running';
    const wasPending = run.status === 'pending';
    move(run, to, { lease: undefined });
    const admitted = model.admitAfter(run.session, heldSlot);
    if (!wasPending || admitted !== undefined) {
      expect(rings.map((ring) => ring.runId)).toEqual(idsOf(admitted));
    }
  }

  const idsOf = (run: ModelRun | undefined) => (run === undefined ? [] : [run.id]);

  async function settled(work: Promise<unknown>): Promise<string> {
    try {
      await work;
      return 'ok';
    } catch (error) {
      return isAppError(error) ? error.code : String(error);
    }
  }

  async function compare(model: Model, tenant: TestTenant, sessions: string[]): Promise<void> {
    const { rows } = await observer.query<{
      id: string;
      status: string;
      lease_token: number;
      idle: number;
      leased: boolean;
    }>(
      `SELECT id, status, lease_token, idle_attempts AS idle, lease_until IS NOT NULL AS leased
       FROM runs WHERE tenant_id = $1 ORDER BY position`,
      [tenant.tenantId],
    );
    expect(rows).toEqual(
      model.runs.map((run) => ({
        id: run.id,
        status: run.status,
        lease_token: run.token,
        idle: run.idle,
        leased: run.lease !== undefined,
      })),
    );
    if (model.cap !== undefined) {
      const slots = await observer.query<{ in_flight: number }>('SELECT in_flight FROM tenants WHERE id = $1', [
        tenant.tenantId,
      ]);
      expect(slots.rows[0]?.in_flight).toBe(model.inFlight);
    }
    const ledger = await observer.query<{ sound: boolean }>(
      `SELECT bool_and(s.last_seq = (SELECT count(*) FROM events e WHERE e.session_id = s.id)
           AND s.last_seq = coalesce((SELECT max(seq) FROM events e WHERE e.session_id = s.id), 0))
         AND (SELECT count(*) FROM runs WHERE tenant_id = $2 AND ended_at IS NOT NULL) =
           (SELECT count(*) FROM events WHERE tenant_id = $2
             AND type IN ('run.completed', 'run.cancelled')) AS sound
       FROM sessions s WHERE s.id = ANY($1::uuid[])`,
      [sessions, tenant.tenantId],
    );
    expect(ledger.rows[0]?.sound).toBe(true);
  }
});
