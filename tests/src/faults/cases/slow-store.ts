import { createTestDatabase } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { startTcpProxy, throughProxy, type Weather } from '../tcp-proxy.js';

/** What the way between a runner and the store is like, one after the other. */
const WEATHERS: Readonly<Record<string, Weather>> = {
  '200 ± 100 ms': { meanMs: 200, jitterMs: 100 },
  '2 % loss': { meanMs: 200, jitterMs: 100, loss: 0.02 },
  '1 KiB/s': { bytesPerSecond: 1_024 },
};
/** At the same time; as many as a runner takes. */
const RUNS = { short: 6, long: 8 } as const;
/** Of the answer: shorter and longer than a lease. */
const ANSWER_MS = { short: 2_000, long: 16_000 } as const;

/** N3: the way between a runner and the store is slow, loses what it carries, or is narrow. No lease is lost for that alone. */
export const slowStore: FaultCase = {
  id: 'N3',
  title: 'a bad network between a runner and the store',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const database = await createTestDatabase();
    const link = await startTcpProxy({ to: Number(new URL(database.url).port), random: context.random.next });
    const system = await context.start({
      database,
      gateways: 1,
      runners: 0,
      replaced: false,
      // The times that ship: the suite's are shorter than what a busy machine may take for a heartbeat over such a link.
      moreRunners: [
        {
          DATABASE_URL: throughProxy(database.url, link),
          CODEDOCK_LEASE_TTL: '15s',
          CODEDOCK_LEASE_HEARTBEAT: '5s',
        },
      ],
      ended: () => link.close(),
    });
    const seconds: string[] = [];
    for (const [name, weather] of Object.entries(WEATHERS)) {
      link.slow(weather);
      const tookMs = await completeAll(system, context.pick(RUNS), context.pick(ANSWER_MS));
      link.slow({});
      const lost = system.runners
        .flatMap((runner) => runner.stdout().split('\n'))
        .filter((line) => line.includes('left to its next lease')).length;
      if (lost > 0) throw new Error(`${lost} leases were lost to ${name} alone`);
      seconds.push(`${name} ${(tookMs / 1_000).toFixed(1)} s`);
    }
    return { detail: `${context.pick(RUNS)} runs each: ${seconds.join(', ')}; no lease lost` };
  },
};

/** Milliseconds until as many runs with a tool call have completed in their first attempt. */
async function completeAll(system: FaultSystem, runs: number, answerMs: number): Promise<number> {
  const began = performance.now();
  const started = await Promise.all(
    Array.from({ length: runs }, () =>
      system.start({
        script: [{ toolCalls: [{ name: TOOLS.effectful, arguments: {} }] }, { delayMs: answerMs, text: 'done' }],
      }),
    ),
  );
  for (const { id } of started) {
    const { status, attempt } = await system.waitForEnd(id, 300_000);
    if (status !== 'completed' || attempt !== 1) throw new Error(`run ${id} is ${status} after ${attempt} attempts`);
  }
  return performance.now() - began;
}
