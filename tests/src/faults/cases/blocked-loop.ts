import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { LEASE_MS } from '../fault-system.js';
import { callsOf } from '../observing.js';
import { blocking } from '../programs/crash-points.js';

/** R6: a tool blocks the event loop for two leases: the run is somebody else's when it goes on. */
export const blockedLoop: FaultCase = {
  id: 'R6',
  title: 'the event loop is blocked for two leases',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 1, long: 10 });
    for (let round = 0; round < rounds; round += 1) {
      const runs = await Promise.all(
        [TOOLS.effectful, TOOLS.pure].map((name) =>
          system.start({
            script: [{ toolCalls: [{ name, arguments: { waitMs: 500 } }] }, { text: 'done' }],
            ...blocking(2 * LEASE_MS),
          }),
        ),
      );
      const [effectful, pure] = await Promise.all(
        runs.map(async ({ id }) => {
          const { status, stopReason, attempt } = await system.waitForEnd(id);
          if (status !== 'completed') throw new Error(`the run is ${status} (${stopReason})`);
          if (attempt < 2) throw new Error('nobody took the run over');
          return (await callsOf(system, id))[0]?.state;
        }),
      );
      if (effectful !== 'unknown') throw new Error(`the effectful call is ${effectful}; right is unknown`);
      if (pure !== 'succeeded') throw new Error(`the pure call is ${pure}; right is succeeded`);
    }
    return { detail: `${rounds * 2} blocked loops` };
  },
};
