import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { callsOf, leasesRunOut } from '../observing.js';
import { crashing } from '../programs/crash-points.js';

/** Attempts without progress that a run may lose; the next lease ends it. */
const IDLE_ATTEMPTS = 5;

/** R4: a run whose every step kills its runner gets to its end, as long as each attempt brings it forward. */
export const killedAgainAndAgain: FaultCase = {
  id: 'R4',
  title: 'one run, killed after each of its steps',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const deaths = context.pick({ short: 3, long: 10 });
    const step = { toolCalls: [{ name: TOOLS.effectful, arguments: {} }] };
    const run = await system.start({
      script: [...Array.from({ length: deaths + 1 }, () => step), { text: 'done' }],
      ...crashing('after-outcome', deaths),
    });
    const ended = await system.waitForEnd(run.id, deaths * 60_000);
    if (ended.status !== 'completed') throw new Error(`the run is ${ended.status} (${ended.stopReason})`);
    const died = system.deaths(run.id).length;
    if (died !== deaths) throw new Error(`the run was the death of ${died} runners; right is ${deaths}`);
    const lost = (await callsOf(system, run.id)).filter(({ state }) => state !== 'succeeded');
    // Each death is behind a stored outcome; a call is lost only to a lease that ran out beside them.
    if (lost.length > leasesRunOut(system, run.id) - deaths)
      throw new Error(`calls with a stored outcome are ${lost.map(({ state }) => state)}`);
    return { detail: `${deaths} deaths, attempt ${ended.attempt}` };
  },
};

/** R5: a run that kills every runner before it gets anywhere is given up; its neighbours are not. */
export const poison: FaultCase = {
  id: 'R5',
  title: 'a run that kills whoever takes it',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const run = await system.start({ script: [{ text: 'never' }], ...crashing('after-claim', 100) });
    const began = performance.now();
    let neighbours = 0;
    let poisoned = await system.waitForRun(run.id, () => true);
    while (poisoned.status === 'queued' || poisoned.status === 'running') {
      const neighbour = await system.start({
        script: [{ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'alive' }],
      });
      const { status } = await system.waitForEnd(neighbour.id, 120_000);
      if (status !== 'completed') throw new Error(`a neighbour is ${status}`);
      neighbours += 1;
      poisoned = await system.waitForRun(run.id, () => true);
    }
    if (poisoned.stopReason !== 'crash_loop') throw new Error(`the run is ${poisoned.status} (${poisoned.stopReason})`);
    const died = system.deaths(run.id).length;
    if (died > IDLE_ATTEMPTS)
      throw new Error(`it was the death of ${died} runners; at most ${IDLE_ATTEMPTS} are right`);
    return {
      recoveryMs: performance.now() - began,
      detail: `given up after ${died} deaths; ${neighbours} neighbours ended`,
    };
  },
};
