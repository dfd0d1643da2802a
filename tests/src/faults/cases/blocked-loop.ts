import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { type FaultSystem, LEASE_MS } from '../fault-system.js';
import { blocking } from '../programs/crash-points.js';

/** R6: a tool blocks the event loop for two leases: the run is somebody else's when it goes on. */
export const blockedLoop: FaultCase = {
  id: 'R6',
  title: 'the event loop is blocked for two leases',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 1, long: 8 });
    let kept = 0;
    for (let round = 0; round < rounds; round += 1) {
      // One after the other: two that block the same runner would keep each other from what is to be seen.
      for (const [name, right] of RIGHT) {
        const state = await blocked(system, name);
        // Nobody had the time to take it over: a lease that has run out is good as long as nobody else has one.
        if (state === 'kept') kept += 1;
        else if (state !== right) throw new Error(`the call of ${name} is ${state}; right is ${right}`);
      }
    }
    if (kept === RIGHT.length * rounds) throw new Error('no run was taken over while its tool was executed');
    return { detail: `${rounds * RIGHT.length} blocked loops${kept === 0 ? '' : `, ${kept} not taken over`}` };
  },
};

/** What becomes of a call whose runner lost the run while the tool was at it. */
const RIGHT: readonly (readonly [tool: string, state: string])[] = [
  [TOOLS.effectful, 'unknown'],
  [TOOLS.pure, 'succeeded'],
];

/** The state in which the call ends; `kept` when its first execution was the last attempt's. */
async function blocked(system: FaultSystem, name: string): Promise<string> {
  const run = await system.start({
    script: [{ toolCalls: [{ name, arguments: { waitMs: 500 } }] }, { text: 'done' }],
    ...blocking(2 * LEASE_MS),
  });
  const { status, stopReason, attempt } = await system.waitForEnd(run.id);
  if (status !== 'completed') throw new Error(`the run is ${status} (${stopReason})`);
  const { rows } = await system.db.query<{ state: string; attempt: number }>(
    `SELECT c.state, e.attempt FROM tool_calls c JOIN executions e ON e.call_id = c.id AND e.n = 1
     WHERE c.run_id = $1`,
    [run.id],
  );
  const [call] = rows;
  if (call === undefined) throw new Error(`the call of ${name} was never executed`);
  return call.attempt === attempt ? 'kept' : call.state;
}
