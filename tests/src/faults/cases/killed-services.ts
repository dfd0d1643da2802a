import { randomUUID } from 'node:crypto';
import { eventually } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem, RunInput } from '../fault-system.js';
import { failedClosed, startLoad, summaryOf } from '../load.js';

const LANES = 6;
/** A run with effects, long enough to be hit in any of its steps. */
const ACTING: RunInput['script'] = [
  { toolCalls: [{ name: TOOLS.effectful, arguments: {} }], delayMs: 200 },
  { toolCalls: [{ name: TOOLS.idempotent, arguments: {} }] },
  { text: 'done' },
];

/**
 * O7: what the kernel does to a service when memory is out: kill -9, of all gateways at once and of the plugin-host,
 * under load; others take their places. Runners are R1's.
 */
export const killedServices: FaultCase = {
  id: 'O7',
  title: 'kill -9 of the gateways and of the plugin-host under load',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const recoveries: number[] = [];
    const load = startLoad(system, LANES, ACTING, failedClosed);
    let runIds: readonly string[];
    try {
      for (let round = 0; round < context.pick({ short: 1, long: 4 }); round += 1) {
        for (const [service, kill] of Object.entries(KILLS)) {
          const before = load.completed();
          await eventually(() => load.completed() > before, { timeoutMs: 60_000, what: 'the load to go on' });
          const first = system.answers.length;
          const began = performance.now();
          const [took] = await Promise.all([servesAgain(system, began), kill(system)]);
          await system.whole();
          recoveries.push(took);
          const seen = summaryOf(system.answers.slice(first));
          context.note(`${service}: a run completes ${Math.round(took)} ms after the kill; clients saw ${seen}`);
        }
      }
    } finally {
      ({ runIds } = await load.stop());
    }
    return {
      recoveryMs: Math.max(...recoveries),
      detail: `${recoveries.length} kills under ${runIds.length} runs`,
    };
  },
};

const KILLS: Readonly<Record<string, (system: FaultSystem) => Promise<unknown>>> = {
  gateways: ({ gateways }) => Promise.all(gateways.filter((each) => !each.hasExited()).map((each) => each.kill())),
  'plugin-host': async (system) => {
    await Promise.all(system.pluginHosts.filter((each) => !each.hasExited()).map((each) => each.kill()));
    // An orchestrator starts again what could not start on a busy machine.
    for (let tries = 1; ; tries += 1) {
      try {
        return await system.startPluginHost();
      } catch (error) {
        if (tries === 5) throw error;
      }
    }
  },
};

/** Milliseconds from `since` until a run that was started after it has completed. */
async function servesAgain(system: FaultSystem, since: number): Promise<number> {
  for (;;) {
    const run = await system.start({ script: ACTING, idempotencyKey: randomUUID() });
    const ended = await system.waitForEnd(run.id, 60_000);
    const tookMs = performance.now() - since;
    if (ended.status === 'completed') return tookMs;
    if (!failedClosed(ended) || tookMs > 90_000)
      throw new Error(`the run after the kill is ${ended.status} (${ended.stopReason})`);
  }
}
