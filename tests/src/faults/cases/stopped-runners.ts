import { setTimeout as delay } from 'node:timers/promises';
import { eventually, type TestProcess } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { type FaultSystem, LEASE_MS } from '../fault-system.js';
import { startActing } from '../observing.js';

/** Runners that sleep at the same time. Nearly all of a round is waiting, for few as for many. */
const STOPPED = { short: 3, long: 8 } as const;
const ROUNDS = { short: 1, long: 13 } as const;
/** Runners of the standing system. */
const STANDING = 3;

/** R3: runners sleep for three leases and wake up into a world in which their runs are others'. */
export const stoppedRunners: FaultCase = {
  id: 'R3',
  title: 'SIGSTOP of a runner for three leases, then SIGCONT',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick(ROUNDS);
    const stopped = context.pick(STOPPED);
    // One is always awake to take over.
    const extra = await Promise.all(Array.from({ length: stopped + 1 - STANDING }, () => system.startRunner()));
    const abortMs: number[] = [];
    try {
      for (let round = 0; round < rounds; round += 1) abortMs.push(...(await sleepAndWake(system, stopped)));
    } finally {
      for (const each of system.aliveRunners()) each.signal('SIGCONT');
      await Promise.all(extra.map((each) => each.stop()));
    }
    const slowest = Math.round(Math.max(0, ...abortMs));
    return { detail: `${rounds * stopped} sleepers; the slowest noticed ${slowest} ms after it woke` };
  },
};

/** Runs of two kinds on every runner: one waits for its tool, one writes all the time. */
async function sleepAndWake(system: FaultSystem, stopped: number): Promise<number[]> {
  const acting = await Promise.all(Array.from({ length: 2 * stopped }, () => startActing(system, TOOLS.effectful)));
  const writing = await Promise.all(
    Array.from({ length: 6 }, () =>
      system.start({ script: [{ chunks: Array.from({ length: 150 }, (_, n) => `${n} `), chunkDelayMs: 100 }] }),
    ),
  );
  const sleepers = system.aliveRunners().slice(0, stopped);
  const before = sleepers.map((sleeper) => sleeper.stdout().length);
  for (const sleeper of sleepers) sleeper.signal('SIGSTOP');
  await delay(LEASE_MS);
  // The tools answer while nobody listens: the sleepers find the results when they wake up.
  await system.sink.release();
  await delay(2 * LEASE_MS);
  const woken = performance.now();
  for (const sleeper of sleepers) sleeper.signal('SIGCONT');
  const held = sleepers.filter((sleeper) =>
    acting.some(({ call }) => sleeper.stdout().includes(`executing ${call.id} `)),
  );
  const noticed = await Promise.all(
    held.map((sleeper) => notices(sleeper, before[sleepers.indexOf(sleeper)] ?? 0, woken)),
  );
  await Promise.all([...acting.map(({ run }) => run), ...writing].map(({ id }) => system.waitForEnd(id)));
  return noticed;
}

/** When the runner says that it has left a run to its next lease. */
async function notices(sleeper: TestProcess, from: number, woken: number): Promise<number> {
  await eventually(() => sleeper.stdout().includes('left to its next lease', from), {
    timeoutMs: 60_000,
    intervalMs: 5,
    what: `${sleeper.name} to notice that its runs are gone`,
  });
  return performance.now() - woken;
}
