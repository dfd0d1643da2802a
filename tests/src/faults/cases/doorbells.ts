import { createDoorbell, createLiveBus } from '@codedock/queue';
import { reconcileOnce } from '@codedock/runs';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { leasesRunOut } from '../observing.js';

const ignored = () => undefined;

/** R7: the same run is rung many times, on several consumers, before, while and after it is executed. */
export const duplicateDoorbells: FaultCase = {
  id: 'R7',
  title: 'a run is rung again and again',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rings = context.pick({ short: 200, long: 1_000 });
    const doorbell = await createDoorbell(system.queueUrl, { report: ignored });
    try {
      const run = await system.start({ script: [{ chunks: Array(20).fill('x'), chunkDelayMs: 50 }, { text: 'done' }] });
      for (let ring = 0; ring < rings; ring += 20) {
        await Promise.all(
          Array.from({ length: 20 }, (_, index) =>
            doorbell.ring({ runId: run.id, doorbell: 1_000 + ring + index, priority: 1, trace: {} }),
          ),
        );
      }
      const { status, attempt } = await system.waitForEnd(run.id);
      if (status !== 'completed' || attempt > 1 + leasesRunOut(system, run.id))
        throw new Error(`the run is ${status} after ${attempt} claims`);
    } finally {
      await doorbell.close();
    }
    return { detail: `${rings} rings, one claim` };
  },
};

/** R12: reconcilers, three at once, ring for runs that are queued, being executed, and whose jobs are still there. */
export const reconcilersAtOnce: FaultCase = {
  id: 'R12',
  title: 'three reconcilers at once',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const count = context.pick({ short: 12, long: 100 });
    const runners = system.aliveRunners();
    // Nobody takes a run yet: all of them are queued, with a job each.
    for (const runner of runners) runner.signal('SIGSTOP');
    const runs = await Promise.all(
      Array.from({ length: count }, () => system.start({ script: [{ text: 'a', delayMs: 50 }] })),
    ).finally(async () => {
      await reconcile(system, 3);
      for (const runner of runners) runner.signal('SIGCONT');
    });
    await reconcile(system, 3);
    const claims = await Promise.all(
      runs.map(async ({ id }) => {
        const { status, attempt } = await system.waitForEnd(id);
        if (status !== 'completed') throw new Error(`run ${id} is ${status}`);
        return attempt - leasesRunOut(system, id);
      }),
    );
    const more = claims.filter((attempt) => attempt > 1).length;
    if (more > 0) throw new Error(`${more} of ${count} runs were claimed more than once`);
    return { detail: `${count} runs, each claimed once` };
  },
};

/** Passes of several reconcilers at the same time, over runs whose rings look lost. */
async function reconcile(system: FaultSystem, reconcilers: number): Promise<void> {
  const doorbell = await createDoorbell(system.queueUrl, { report: ignored });
  const bus = await createLiveBus({ queueUrl: system.queueUrl, directUrl: system.databaseUrl, report: ignored });
  const ports = {
    store: system.store,
    doorbell,
    bus,
    hooks: {},
    clock: { now: () => Date.now(), sleep: async () => undefined },
    ids: { next: () => crypto.randomUUID() },
    report: ignored,
  };
  try {
    await system.db.query("UPDATE runs SET rung_at = rung_at - interval '1 minute' WHERE status = 'queued'");
    await Promise.all(Array.from({ length: reconcilers }, () => reconcileOnce(ports)));
  } finally {
    await bus.close();
    await doorbell.close();
  }
}
