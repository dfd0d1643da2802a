import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@codedock/testkit';
import pg from 'pg';
import { TOOLS } from '../effects/acting-plugin.js';
import { type CaseContext, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { expectAlive, expectGatewaysReady, healthOf } from '../health.js';
import { expectAnswered, recovered, startLoad, summaryOf } from '../load.js';
import { type ActingRun, startActing } from '../observing.js';

/** Share of statements that lose to nobody. */
const CONFLICT_SHARE = 0.03;
/** Tables that every run writes to. */
const TABLES = ['sessions', 'runs', 'events', 'messages', 'tool_calls', 'executions'];
/** More than all gateways have connections. */
const HOT_CLIENTS = 24;

/** D7: conflicts, a deadlock, and a lock on hot rows that is held until the gateways have no connection left. */
export const contendedPostgres: FaultCase = {
  id: 'D7',
  title: 'serialization failures, deadlocks, and a lock on hot rows that takes all connections',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const { postgres } = system;
    if (postgres === undefined) throw new Error('the system has no PostgreSQL of its own');
    const first = system.answers.length;
    const admin = new pg.Pool({ connectionString: postgres.adminUrl, max: 4 });
    admin.on('error', () => undefined);
    try {
      const { conflicts, doubled } = await conflictsUnderLoad(context, system, admin);
      const deadlocks = await deadlock(system, admin);
      const locked = await lockHotRows(context, system, admin);
      expectAnswered(system, first);
      return {
        doubled: doubled + locked.doubled,
        recoveryMs: locked.recoveryMs,
        detail: `${conflicts} conflicts, ${deadlocks} deadlock, rows locked for ${Math.round(locked.heldMs)} ms; clients saw ${summaryOf(system.answers.slice(first))}`,
      };
    } finally {
      await admin.end();
    }
  },
};

/** Statements fail at random as if they had lost to another at the same time. Answers how many did. */
async function conflictsUnderLoad(
  context: CaseContext,
  system: FaultSystem,
  admin: pg.Pool,
): Promise<{ readonly conflicts: number; readonly doubled: number }> {
  const wanted = context.pick({ short: 20, long: 500 });
  await admin.query('CREATE SEQUENCE faults_conflicts MINVALUE 0');
  await admin.query('GRANT ALL ON SEQUENCE faults_conflicts TO PUBLIC');
  // A sequence keeps what is rolled back.
  await admin.query(
    `CREATE FUNCTION faults_conflict() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN
       IF random() < ${CONFLICT_SHARE} THEN
         PERFORM nextval('faults_conflicts');
         RAISE EXCEPTION 'a fault of the suite' USING ERRCODE = CASE WHEN random() < 0.5 THEN '40001' ELSE '40P01' END;
       END IF;
       RETURN NULL;
     END $$`,
  );
  const count = async () =>
    (await admin.query<{ n: number }>('SELECT last_value::int AS n FROM faults_conflicts')).rows[0]?.n ?? 0;
  const load = startLoad(system, context.pick({ short: 4, long: 16 }));
  let doubled: number;
  try {
    for (const table of TABLES) {
      await admin.query(
        `CREATE TRIGGER faults_conflict AFTER INSERT OR UPDATE ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION faults_conflict()`,
      );
    }
    await eventually(async () => (await count()) >= wanted, {
      timeoutMs: context.pick({ short: 90_000, long: 600_000 }),
      intervalMs: 100,
      what: 'enough statements to lose',
    });
  } finally {
    for (const table of TABLES) await admin.query(`DROP TRIGGER IF EXISTS faults_conflict ON ${table}`);
    ({ doubled } = await load.stop());
  }
  const conflicts = await count();
  await admin.query('DROP FUNCTION faults_conflict');
  await admin.query('DROP SEQUENCE faults_conflicts');
  return { conflicts, doubled };
}

/** Crosses the locks of a runner that stores an outcome: run, then session. Answers the deadlocks the server saw. */
async function deadlock(system: FaultSystem, admin: pg.Pool): Promise<number> {
  const seen = async () =>
    (
      await admin.query<{ n: number }>(
        'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
      )
    ).rows[0]?.n ?? 0;
  const before = await seen();
  const held = await startActing(system, TOOLS.effectful);
  const other = await admin.connect();
  try {
    await other.query('BEGIN');
    await other.query('SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE', [held.run.sessionId]);
    await system.sink.release(held.call.id);
    await eventually(
      async () => {
        const { rows } = await admin.query(
          "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%codedock_append%'",
        );
        return rows.length > 0;
      },
      { timeoutMs: 60_000, what: 'the outcome to wait for its session' },
    );
    // One of the two is the victim; this side may be.
    await other.query('UPDATE runs SET id = id WHERE id = $1', [held.run.id]).catch(() => undefined);
  } finally {
    await other.query('ROLLBACK');
    other.release();
  }
  await ended(system, held);
  return eventually(
    async () => {
      const n = (await seen()) - before;
      if (n === 0) throw new Error('the server saw none');
      return n;
    },
    { timeoutMs: 60_000, what: 'a deadlock' },
  );
}

/**
 * Somebody holds a session and a run that is executed, and many clients want that session, until no gateway has a
 * connection left: all others are refused for now, health says so, and when the lock is gone all goes on.
 */
async function lockHotRows(
  context: CaseContext,
  system: FaultSystem,
  admin: pg.Pool,
): Promise<{ readonly heldMs: number; readonly recoveryMs: number; readonly doubled: number }> {
  // In the long tier longer than a statement may take.
  const leastMs = context.pick({ short: 20_000, long: 40_000 });
  const held = await startActing(system, TOOLS.effectful);
  const { sessionId } = held.run;
  const load = startLoad(system, 4);
  const other = await admin.connect();
  const began = performance.now();
  let hot: Promise<unknown> = Promise.resolve();
  let since = began;
  try {
    await other.query('BEGIN');
    await other.query('SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [held.run.id]);
    await other.query('SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE', [sessionId]);
    hot = Promise.all(
      Array.from({ length: HOT_CLIENTS }, () =>
        system.start({ script: [{ text: 'done' }], sessionId, onBusy: 'enqueue', idempotencyKey: randomUUID() }),
      ),
    );
    hot.catch(() => undefined);
    await system.sink.release(held.call.id);
    await eventually(async () => (await healthOf(system, '/readyz')).gateways.every((status) => status === 503), {
      timeoutMs: 60_000,
      what: 'the gateways to say that they have no connection',
    });
    await expectAlive(system);
    await delay(Math.max(0, leastMs - (performance.now() - began)));
    since = performance.now();
  } finally {
    await other.query('ROLLBACK');
    other.release();
  }
  const recoveryMs = await recovered(system, since);
  await hot;
  const { doubled } = await load.stop();
  await ended(system, held);
  await expectGatewaysReady(system, 200);
  return { heldMs: since - began, recoveryMs, doubled };
}

async function ended(system: FaultSystem, { run }: ActingRun): Promise<void> {
  const { status, stopReason } = await system.waitForEnd(run.id);
  if (status !== 'completed') throw new Error(`run ${run.id} is ${status} (${stopReason})`);
}
