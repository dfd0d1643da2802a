import { type TestProcess, within } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { DRAIN_MS, type FaultSystem, LEASE_MS } from '../fault-system.js';
import { startActing } from '../observing.js';
import { leasesIn } from '../programs/told-leases.js';

/** Beyond the time for turns: the rest of a shutdown, on a busy machine. */
const REST_MS = 40_000;

/** What a second SIGTERM ends a process with, or 0 where the end by the first was quicker. */
const SECOND_SIGTERM: ReadonlySet<unknown> = new Set([0, 128 + 15]);

/** A runner that has ended as it was told to. */
interface Drained {
  readonly runner: TestProcess;
  /** No sooner than its end: milliseconds of the monotonic clock in which runners tell of their leases. */
  readonly goneMs: number;
}

/** O1: every runner is told to end, one after another, with eight runs and a call that outlasts the drain in flight. */
export const drainedRunners: FaultCase = {
  id: 'O1',
  title: 'SIGTERM of each runner under eight runs',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 1, long: 3 });
    const drainMs: number[] = [];
    const drained: Drained[] = [];
    let lanesOver = false;
    const ended: string[] = [];
    // Turns that are shorter than the drain, and replies that are longer.
    const scripts = [
      [
        ...Array.from({ length: 6 }, () => ({ delayMs: 300, toolCalls: [{ name: 'ping', arguments: {} }] })),
        { text: 'a' },
      ],
      [{ chunks: Array.from({ length: 120 }, (_, n) => `${n} `), chunkDelayMs: 60 }],
    ];
    const completed = async (runId: string) => {
      const { status, stopReason } = await system.waitForEnd(runId);
      if (status !== 'completed') throw new Error(`run ${runId} is ${status} (${stopReason})`);
      ended.push(runId);
    };
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      while (!lanesOver) {
        const run = await system.start({ script: scripts[lane % scripts.length] ?? [] });
        await completed(run.id);
      }
    });
    try {
      for (let round = 0; round < rounds; round += 1) {
        // The sink lets this call go when its runner has ended, and whoever repeats it at once.
        const { run, call } = await startActing(system, TOOLS.idempotent);
        const executing = system.runnerOf(call.id);
        const others = system.aliveRunners().filter((runner) => runner !== executing);
        for (const runner of [...(executing === undefined ? [] : [executing]), ...others]) {
          const began = performance.now();
          const { code, signal } = await runner.stop(DRAIN_MS + REST_MS);
          drainMs.push(performance.now() - began);
          drained.push({ runner, goneMs: Number(process.hrtime.bigint() / 1_000_000n) });
          if (code !== 0) throw new Error(`${runner.name} ended with ${signal ?? code} after SIGTERM`);
          await system.sink.release(call.id);
          await system.whole();
        }
        await completed(run.id);
      }
      const [last] = system.aliveRunners();
      if (last === undefined) throw new Error('no runner is alive');
      last.signal('SIGTERM');
      // Two that arrive before the process looks are one.
      await last.waitForOutput(/"shutting down"/, REST_MS);
      last.signal('SIGTERM');
      const { code, signal } = await within(last.exited, DRAIN_MS + REST_MS, `${last.name} to end after two SIGTERMs`);
      if (!SECOND_SIGTERM.has(code)) throw new Error(`${last.name} ended with ${signal ?? code} after two SIGTERMs`);
    } finally {
      lanesOver = true;
    }
    await Promise.all(lanes);
    const left = await leftToRunOut(system, drained, ended);
    if (left.length > 0)
      throw new Error(`a drain left to their leases, instead of handing them back: ${left.join(', ')}`);
    const { rows } = await system.db.query<{ lost: number }>(
      `SELECT count(*)::int AS lost FROM events WHERE type = 'tool.outcome_unknown' AND run_id = ANY ($1)`,
      [ended],
    );
    if (rows[0]?.lost !== 0) context.note(`${rows[0]?.lost} calls were cut off by the second SIGTERM`);
    const slowest = Math.round(Math.max(...drainMs));
    return {
      recoveryMs: slowest,
      detail: `${drainMs.length} drains under ${ended.length} runs, the slowest ${slowest} ms`,
    };
  },
};

/**
 * Runs that a drained runner held to its end and did not hand back, so that the next attempt had to wait for the lease. One
 * that ran out while the runner lived, for want of time, is the machine's doing.
 */
async function leftToRunOut(
  { db }: FaultSystem,
  drained: readonly Drained[],
  runIds: readonly string[],
): Promise<readonly string[]> {
  const { rows } = await db.query<{ id: string; attempts: number; handed: readonly number[] }>(
    `SELECT id, lease_token AS attempts, ARRAY (SELECT e.attempt FROM events e WHERE e.run_id = runs.id
       AND e.type = 'run.state_changed' AND e.payload @> '{"from": "running", "to": "queued"}') AS handed
     FROM runs WHERE id = ANY ($1)`,
    [runIds],
  );
  return rows.flatMap(({ id, attempts, handed }) =>
    drained.flatMap(({ runner, goneMs }) =>
      [...leasesIn([runner.stdout()], id)]
        .filter(
          ([attempt, { lastSignMs }]) =>
            attempt < attempts && !handed.includes(attempt) && lastSignMs + LEASE_MS > goneMs,
        )
        .map(([attempt]) => `attempt ${attempt} of run ${id}`),
    ),
  );
}
