import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { DRAIN_MS } from '../fault-system.js';

/** Beyond the time for turns: the rest of a shutdown, on a busy machine. */
const REST_MS = 40_000;

/** O1: every runner is told to end, one after another, with eight runs in flight. */
export const drainedRunners: FaultCase = {
  id: 'O1',
  title: 'SIGTERM of each runner under eight runs',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 1, long: 4 });
    const drainMs: number[] = [];
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
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      while (!lanesOver) {
        const run = await system.start({ script: scripts[lane % scripts.length] ?? [] });
        const { status, stopReason } = await system.waitForEnd(run.id);
        if (status !== 'completed') throw new Error(`run ${run.id} is ${status} (${stopReason})`);
        ended.push(run.id);
      }
    });
    try {
      for (let round = 0; round < rounds; round += 1) {
        for (const runner of system.aliveRunners()) {
          const began = performance.now();
          const { code, signal } = await runner.stop(DRAIN_MS + REST_MS);
          drainMs.push(performance.now() - began);
          if (code !== 0) throw new Error(`${runner.name} ended with ${signal ?? code} after SIGTERM`);
          await system.whole();
        }
      }
      const [last] = system.aliveRunners();
      last?.signal('SIGTERM');
      last?.signal('SIGTERM');
      await last?.exited;
    } finally {
      lanesOver = true;
    }
    await Promise.all(lanes);
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
