import { eventually, type TestProcess } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { type CaseContext, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { type FaultSystem, LEASE_MS } from '../fault-system.js';
import { actingOrEnded, callsOf, leasesRunOut, signOfLife } from '../observing.js';
import { leasesIn } from '../programs/told-leases.js';

/** Runs in flight all the time. */
const IN_FLIGHT = 8;
/** A run that was spared so many kills may end. */
const SPARED = 2;

/** A runner, and when it was killed: milliseconds of the machine's clock, and of the monotonic one. */
interface Death {
  readonly runner: TestProcess;
  readonly at: number;
  readonly monotonicMs: number;
}

interface Flight {
  readonly runId: string;
  readonly callId: string;
  readonly tool: string;
  /** Kills that hit its runner while the call was held. */
  readonly hits: Death[];
  /** Kills that hit other runners. */
  spared: number;
}

/** R1: kill -9 of runners in the middle of tool calls, again and again, with runs in flight all the time. */
export const killedRunners: FaultCase = {
  id: 'R1',
  title: 'kill -9 of a runner in mid tool call',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const kills = context.pick({ short: 8, long: 200 });
    const flights = new Set<Flight>();
    const ended: Flight[] = [];
    let over = false;
    const lanes = Array.from({ length: IN_FLIGHT }, async () => {
      while (!over) ended.push(...(await fly(context, system, flights, () => over)));
    });
    const deaths: Death[] = [];
    const killer = kill(context, system, flights, { kills, deaths }).finally(() => {
      over = true;
    });
    await Promise.all([killer, ...lanes]);
    const { resumeMs, hitAgain } = await judge(system, ended, deaths);
    const bound = LEASE_MS + 3_000;
    const late = resumeMs.filter((ms) => ms > bound).length;
    const hits = ended.reduce((sum, { hits }) => sum + hits.length, 0);
    return {
      resumeMs,
      detail: `${kills} kills hit ${hits} calls of ${ended.length} runs; ${late} resumed later than ${bound} ms; ${hitAgain} were hit again before they had gone on`,
    };
  },
};

/** One run from its start to its end; none when a kill hit it before its call was seen to act. */
async function fly(
  { random }: CaseContext,
  system: FaultSystem,
  flights: Set<Flight>,
  isOver: () => boolean,
): Promise<Flight[]> {
  // Half of the calls must never be repeated; the others have to be.
  const tool = random.oneOf([TOOLS.effectful, TOOLS.effectful, TOOLS.idempotent, TOOLS.pure]);
  const run = await system.start({
    script: [{ toolCalls: [{ name: tool, arguments: { hold: true } }] }, { text: 'done' }],
  });
  const call = await actingOrEnded(system, run.id);
  if (call === undefined) return [];
  const callId = call.id;
  const flight: Flight = { runId: run.id, callId, tool, hits: [], spared: 0 };
  flights.add(flight);
  await eventually(() => flight.hits.length > 0 || flight.spared >= SPARED || isOver(), {
    timeoutMs: 600_000,
    intervalMs: 50,
    what: 'kills to hit or to spare a run',
  });
  flights.delete(flight);
  if (flight.hits.length === 0) await system.sink.release(callId);
  await system.waitForEnd(run.id);
  return [flight];
}

async function kill(
  { random }: CaseContext,
  system: FaultSystem,
  flights: Set<Flight>,
  { kills, deaths }: { readonly kills: number; readonly deaths: Death[] },
): Promise<void> {
  for (let kill = 0; kill < kills; kill += 1) {
    await system.whole();
    const victim = await eventually(
      () => {
        const flying = [...flights].flatMap((flight) => system.runnerOf(flight.callId) ?? []);
        return flying.length > 0 && random.oneOf(flying);
      },
      { timeoutMs: 60_000, intervalMs: 50, what: 'a call in flight' },
    );
    const held = [...flights].filter(({ callId }) => system.runnerOf(callId) === victim);
    const death = { runner: victim, at: Date.now(), monotonicMs: Number(process.hrtime.bigint() / 1_000_000n) };
    await victim.kill();
    deaths.push(death);
    for (const flight of flights) {
      if (held.includes(flight)) flight.hits.push(death);
      else flight.spared += 1;
    }
  }
}

function rightStates(tool: string, held: boolean, runOut: boolean): readonly string[] {
  if (held) return [tool === TOOLS.effectful ? 'unknown' : 'succeeded'];
  return runOut ? ['succeeded', 'unknown'] : ['succeeded'];
}

/** The calls that are flagged are those that were held when their runner died, and resumed is every run. */
async function judge(
  system: FaultSystem,
  ended: readonly Flight[],
  deaths: readonly Death[],
): Promise<{ readonly resumeMs: readonly number[]; readonly hitAgain: number }> {
  const resumeMs: number[] = [];
  let hitAgain = 0;
  for (const { runId, callId, tool, hits: own } of ended) {
    const run = await system.waitForEnd(runId);
    if (run.status !== 'completed') throw new Error(`run ${runId} is ${run.status} (${run.stopReason})`);
    const call = (await callsOf(system, runId)).find(({ id }) => id === callId);
    // Held when its runner died: no outcome can be known. One that was let go may have lost the race with a kill, and its
    // lease has run out then; that the flagged calls are those without a stored outcome, and no others, is the checker's to
    // say.
    const held = own.length > 0;
    const right = rightStates(tool, held, leasesRunOut(system, runId) > 0);
    if (!right.includes(call?.state ?? ''))
      throw new Error(`call ${callId} of ${tool} is ${call?.state}; right is ${right}`);
    const { rows } = await system.db.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM events WHERE run_id = $1 AND type = 'turn.restarted'",
      [runId],
    );
    const again = rows[0]?.n ?? 0;
    if (again > run.attempt - 1)
      throw new Error(`run ${runId}: ${again} model calls were made anew in ${run.attempt} attempts`);
    for (const hit of own) {
      const steps = await resumed(system, runId, hit, deaths);
      resumeMs.push(...steps);
      if (steps.length > 1) hitAgain += 1;
    }
  }
  return { resumeMs, hitAgain };
}

/**
 * Milliseconds from a kill to the next sign of life of the run that it hit. Where whoever took the run next was killed
 * before that sign: from the kill to that taking over, from that kill on, and so on. None: a runner that got no time had
 * lost the run before it was killed, and another had it.
 */
async function resumed(system: FaultSystem, runId: string, hit: Death, deaths: readonly Death[]): Promise<number[]> {
  const sign = await signOfLife(system, runId, hit.at);
  if (sign === undefined) return [];
  const attemptOf = ({ runner }: Death) => Math.max(0, ...leasesIn([runner.stdout()], runId).keys());
  const meanwhile = deaths.filter(({ at }) => at > hit.at && at < hit.at + sign.ms);
  const again = meanwhile.filter((death) => attemptOf(death) > attemptOf(hit));
  const steps: number[] = [];
  let from = hit;
  for (const death of again) {
    const taken = leasesIn([death.runner.stdout()], runId).get(attemptOf(death));
    if (taken !== undefined) steps.push(taken.takenMs - from.monotonicMs);
    from = death;
  }
  // An attempt between of which nobody has told: its runner died while it took the run.
  const untold = sign.attempt > attemptOf(from) + 1 ? meanwhile.at(-1) : undefined;
  if (untold !== undefined && untold !== from) {
    steps.push(untold.at - from.at);
    from = untold;
  }
  return [...steps, hit.at + sign.ms - from.at];
}
