import { setTimeout as delay } from 'node:timers/promises';
import { percentile } from '../../bench/statistics.js';
import { fakeScript } from '../../system.js';
import { type CrowdReport, type StreamCrowd, startCrowd } from '../clients/stream-crowd.js';
import { startTraffic, type Traffic, type TrafficReport } from '../clients/traffic.js';
import { type CaseContext, type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { DRAIN_MS, type FaultSystem } from '../fault-system.js';

/** Beyond the time for turns or streams: the rest of a shutdown, on a busy machine. */
const REST_MS = 60_000;
const CLIENTS = { short: 100, long: 1_000 } as const;
const SESSIONS = { short: 8, long: 20 } as const;

/** O2: everything that serves is replaced, process by process, while runs are sent and a crowd follows them. */
export const rollingRestarts: FaultCase = {
  id: 'O2',
  title: 'rolling restarts of runners and gateways under clients',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const runs = context.pick({ short: 30, long: 200 });
    const rolls = context.pick({ short: 1, long: 4 });
    const everyMs = context.pick({ short: 0, long: 30_000 });
    const rollRunners = context.pick({ short: rollAtOnce, long: roll });
    return crowded(context, system, async (traffic) => {
      for (let rolled = 0; rolled < rolls; rolled += 1) {
        const next = delay(everyMs);
        await Promise.all([rollRunners(system, system.runners), roll(system, system.gateways)]);
        await next;
      }
      while (traffic.ended < runs) await delay(250);
      return `${rolls} rolls`;
    });
  },
};

/** L2: gateways are killed under a crowd whose own network breaks as well. */
export const killedGateways: FaultCase = {
  id: 'L2',
  title: 'kill -9 of gateways under a crowd of event streams',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const kills = context.pick({ short: 1, long: 10 });
    const everyMs = context.pick({ short: 1_000, long: 10_000 });
    return crowded(context, system, async (traffic, crowd) => {
      const broken = setInterval(() => crowd.drop(context.pick(CLIENTS) / 100), 1_000);
      try {
        for (let kill = 0; kill < kills; kill += 1) {
          const next = delay(everyMs);
          const victims = system.gateways.filter((gateway) => !gateway.hasExited());
          await context.random.oneOf(victims).kill();
          await system.whole();
          await next;
        }
      } finally {
        clearInterval(broken);
      }
      const until = traffic.ended + context.pick(SESSIONS);
      while (traffic.ended < until) await delay(250);
      return `${kills} kills`;
    });
  },
};

type Processes = FaultSystem['runners'];

/** Tells every process to end that lives now, one after another; the next only when the former is replaced. */
async function roll(system: FaultSystem, processes: Processes): Promise<void> {
  for (const each of processes.filter((process) => !process.hasExited())) {
    await end(each);
    await system.whole();
  }
}

/** The same without waiting in between: for a while nobody serves. */
async function rollAtOnce(system: FaultSystem, processes: Processes): Promise<void> {
  await Promise.all(processes.filter((process) => !process.hasExited()).map(end));
  await system.whole();
}

async function end(each: Processes[number]): Promise<void> {
  const { code, signal } = await each.stop(DRAIN_MS + REST_MS);
  if (code !== 0) throw new Error(`${each.name} ended with ${signal ?? code} after SIGTERM`);
}

/** Does harm while clients send runs and a crowd follows them; then every reader has to have seen 1..n, each once. */
async function crowded(
  context: CaseContext,
  system: FaultSystem,
  harm: (traffic: Traffic, crowd: StreamCrowd) => Promise<string>,
): Promise<CaseReport> {
  const clients = context.pick(CLIENTS);
  const sessions = await Promise.all(Array.from({ length: context.pick(SESSIONS) }, () => system.createSession()));
  const crowd = await startCrowd({
    key: system.key,
    sessions,
    clients,
    processes: context.pick({ short: 1, long: 2 }),
    urls: () => system.livingUrls(),
  });
  try {
    const content = fakeScript(
      { chunks: Array.from({ length: 6 }, (_, n) => `${n} `), chunkDelayMs: 400, toolCalls: [{ name: 'ping' }] },
      { text: 'done' },
    );
    const traffic = startTraffic(system, sessions, () => ({ content }));
    // Everybody is connected and has seen something before the first fault.
    await crowd.until(new Map(sessions.map((id) => [id, 1])), REST_MS);
    const done = await Promise.race([harm(traffic, crowd), traffic.failed]);
    const sent = await traffic.stop();
    const seen = await crowd.until(await lastSeqs(system, sessions), REST_MS);
    return judged(context, clients, sent, seen, done);
  } finally {
    await crowd.close();
  }
}

function judged(
  context: CaseContext,
  clients: number,
  { runIds, ends, refusals, longestMs }: TrafficReport,
  { gaps, dups, connections, drops, frames, catchUpMs, answers }: CrowdReport,
  done: string,
): CaseReport {
  context.note(
    `${context.profile}: ${done}; answers to runs beside 201 ${JSON.stringify(refusals)}, the longest after ${Math.round(longestMs)} ms; ${frames} frames over ${connections} streams, ${drops} of them broken by clients, answers ${JSON.stringify(answers)}; caught up ${catchUpMs.length} times, p50 ${Math.round(percentile(catchUpMs, 0.5))} ms, p99 ${Math.round(percentile(catchUpMs, 0.99))} ms`,
  );
  for (const line of [...gaps, ...dups].slice(0, 10)) context.note(line);
  const others = Object.keys(ends).filter((end) => end !== 'completed');
  if (others.length > 0) throw new Error(`runs ended otherwise than completed: ${JSON.stringify(ends)}`);
  return {
    sseGaps: gaps.length,
    sseDups: dups.length,
    ...(catchUpMs.length === 0 ? {} : { recoveryMs: percentile(catchUpMs, 0.99) }),
    detail: `${clients} clients, ${runIds.length} runs`,
  };
}

async function lastSeqs({ db }: FaultSystem, sessions: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const { rows } = await db.query<{ id: string; last_seq: string }>(
    'SELECT id, last_seq FROM sessions WHERE id = ANY ($1)',
    [sessions],
  );
  return new Map(rows.map(({ id, last_seq }) => [id, Number(last_seq)]));
}
