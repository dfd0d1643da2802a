import { eventually } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { approveAll, callsOf, leasesRunOut, lostItsRunner, resumedAfter } from '../observing.js';
import { CRASH_POINTS, type CrashPoint, crashing } from '../programs/crash-points.js';

/** How many die about the same time: a run whose runner is taken by others five times in a row would be given up. */
const TOGETHER = 4;

const TRIES = 8;

/** A run that passes every place: it streams, acts on the world, asks a person where that is the place, and answers. */
const script = (at: CrashPoint) => [
  {
    chunks: ['one ', 'two ', 'three'],
    chunkDelayMs: 60,
    toolCalls: [{ name: at === 'in-approval' ? TOOLS.approved : TOOLS.effectful, arguments: { at } }],
  },
  { text: 'done' },
];

/** Places at which a call was begun and has no outcome: it, and only it, becomes unknown. */
const UNKNOWN: ReadonlySet<CrashPoint> = new Set(['after-intent', 'after-effect', 'before-outcome']);

/** Places at which the run holds no lease that would have to run out. */
const WITHOUT_LEASE: ReadonlySet<CrashPoint> = new Set([
  'after-commit-before-reply',
  'in-approval',
  'after-terminal',
  'before-ack',
]);

/** R2: a process dies at each named place. */
export const crashPoints: FaultCase = {
  id: 'R2',
  title: 'death at each named place',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const points = Object.keys(CRASH_POINTS) as CrashPoint[];
    const rounds = context.pick({ short: 1, long: 5 });
    const resumeMs: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      for (let index = 0; index < points.length; index += TOGETHER) {
        let together = points.slice(index, index + TOGETHER);
        for (let tries = 1; together.length > 0; tries += 1) {
          if (tries > TRIES) throw new Error(`no process died at ${together}`);
          const died = await Promise.all(together.map((point) => dieAt(system, point)));
          resumeMs.push(...died.flatMap((ms) => (typeof ms === 'number' ? [ms] : [])));
          // One whose runner died of another run goes on behind its place: once more.
          together = together.filter((_, place) => died[place] === 'spared');
        }
      }
    }
    return { resumeMs, detail: `${points.length} places, ${rounds} × each` };
  },
};

/** Milliseconds from the death to the next sign of life of the run; undefined where there is none to be expected. */
async function dieAt(system: FaultSystem, point: CrashPoint): Promise<number | undefined | 'spared'> {
  const run = await system.start({ script: script(point), ...crashing(point), idempotencyKey: crypto.randomUUID() });
  if (point === 'in-approval') await approveAll(system, run.id);
  const ended = await system.waitForEnd(run.id);
  if (ended.status !== 'completed') throw new Error(`${point}: the run is ${ended.status} (${ended.stopReason})`);
  const lostByOthers = () => leasesRunOut(system, run.id) > 0 || lostItsRunner(system, run.id);
  // The last places are behind the end that is waited for.
  await eventually(() => system.deaths(run.id).length > 0 || lostByOthers(), {
    timeoutMs: 30_000,
    what: `${point}: a process to die of the run, or of another while it held this one`,
  });
  const [death, ...further] = system.deaths(run.id);
  if (further.length > 0) throw new Error(`${point}: ${further.length + 1} deaths; right is one`);
  const own = death === undefined || WITHOUT_LEASE.has(point) ? 0 : 1;
  const lostToOthers = leasesRunOut(system, run.id) > own;
  for (const { name, state } of await callsOf(system, run.id)) {
    const unknown = state === 'unknown';
    if (UNKNOWN.has(point) && !unknown && death !== undefined)
      throw new Error(`${point}: the call of ${name} is ${state}, and nobody knows`);
    // One whose runner dies of another run as well may be unknown at any place.
    const right = state === 'succeeded' || (unknown && lostToOthers);
    if (!UNKNOWN.has(point) && !right) throw new Error(`${point}: ${name} is ${state}`);
  }
  if (death === undefined) return 'spared';
  // After the approval is stored, and before anybody was rung, there is no lease that must run out.
  if (point === 'in-approval' || point === 'after-commit-before-reply') return undefined;
  return resumedAfter(system, run.id, death);
}
