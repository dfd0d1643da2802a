import { randomUUID } from 'node:crypto';
import { eventually, type RedisGroup, startRedisCluster, startRedisSentinels, type TestRedis } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { type CaseContext, type CaseReport, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { expectAlive, expectGatewaysReady } from '../health.js';
import { type LoadReport, recovered, startLoad, summaryOf } from '../load.js';
import { leasesRunOut, startActing } from '../observing.js';

/** A way of doing harm to Redis, and of healing it. */
interface RedisFault {
  readonly harm: () => Promise<unknown>;
  /** Resolves when Redis takes writes again. */
  readonly heal: () => Promise<unknown>;
  /** True: while it lasts runners stand still, so that accepted runs have jobs to be lost. Otherwise nobody can be rung. */
  readonly frozen?: boolean;
  /** True: it is healed by itself, perhaps before it has been seen that runs wait. */
  readonly passing?: boolean;
  /** What makes the next fault possible. */
  readonly afterwards?: () => Promise<void>;
}

/** D1: kill -9, once with the append-only file found again, once with everything lost. */
export const killedRedis: FaultCase = {
  id: 'D1',
  title: 'kill -9 of Redis under load, with its file and empty',
  tiers: EACH_TIER,
  profiles: ['redis'],
  run: (context) =>
    withOwnRedis(context, { short: 1, long: 5 }, (redis) => [
      { harm: () => redis.kill(), heal: () => redis.restart() },
      { harm: () => redis.kill(), heal: () => redis.restart({ empty: true }) },
    ]),
};

/** D3: everything in Redis is deleted, jobs that wait, jobs in work and their locks, and once more with eight jobs that wait. */
export const emptiedRedis: FaultCase = {
  id: 'D3',
  title: 'FLUSHALL under load',
  tiers: EACH_TIER,
  profiles: ['redis'],
  run: (context) =>
    withOwnRedis(context, { short: 2, long: 5 }, (redis) => [
      { harm: () => redis.run('FLUSHALL'), heal: () => redis.run('FLUSHALL'), frozen: true },
    ]),
};

/** D4: Redis has no memory left and takes no write; it evicts nothing. */
export const fullRedis: FaultCase = {
  id: 'D4',
  title: 'Redis at maxmemory under load',
  tiers: EACH_TIER,
  profiles: ['redis'],
  run: (context) =>
    withOwnRedis(context, { short: 1, long: 5 }, (redis) => [
      {
        harm: () => redis.run('CONFIG', 'SET', 'maxmemory', '1'),
        heal: () => redis.run('CONFIG', 'SET', 'maxmemory', '0'),
      },
    ]),
};

/**
 * D8: the master is killed for good, or answers no more, and a replica takes over: as Sentinels decide, and as the nodes of
 * a Cluster do.
 */
export const failedOverRedis: FaultCase = {
  id: 'D8',
  title: 'Redis fails over under load, with Sentinels and as a Cluster',
  tiers: EACH_TIER,
  profiles: ['redis'],
  async run(context) {
    const { pick } = context;
    const reports = [
      await failedOver(context, await startRedisSentinels(), pick({ short: [FROZEN], long: [KILLED, FROZEN] })),
      await failedOver(context, await startRedisCluster(), pick({ short: [KILLED], long: [KILLED, FROZEN] })),
    ];
    const [bySentinels, asCluster] = reports;
    return {
      doubled: reports.reduce((sum, { doubled = 0 }) => sum + doubled, 0),
      recoveryMs: Math.max(...reports.map(({ recoveryMs = 0 }) => recoveryMs)),
      detail: `with Sentinels ${told(bySentinels)}; as a Cluster ${told(asCluster)}`,
    };
  },
};

type MasterFault = 'killMaster' | 'freezeMaster';
const KILLED: MasterFault = 'killMaster';
const FROZEN: MasterFault = 'freezeMaster';
const told = (report: CaseReport | undefined) => `${report?.recoveryMs} ms, ${report?.detail}`;

async function failedOver(
  context: CaseContext,
  group: RedisGroup,
  faults: readonly MasterFault[],
): Promise<CaseReport> {
  const secrets = { 'the password of Redis': group.password };
  const system = await context.start({ redisUrl: group.url, secrets, ended: () => group.stop() });
  const each = faults.map((fault) => ({
    harm: () => group[fault](),
    heal: () => group.takenOver(),
    passing: true,
    afterwards: () => group.restore(),
  }));
  return underLoad(context, system, { short: 1, long: 2 }, each);
}

async function withOwnRedis(
  context: CaseContext,
  rounds: { readonly short: number; readonly long: number },
  faults: (redis: TestRedis) => readonly RedisFault[],
): Promise<CaseReport> {
  const system = await context.standing();
  if (system.redis === undefined) throw new Error('the system has no Redis of its own');
  return underLoad(context, system, rounds, faults(system.redis));
}

/** Clients that go on all the time, a call that is in work all the time, and runs that are accepted while the fault lasts. */
async function underLoad(
  context: CaseContext,
  system: FaultSystem,
  rounds: { readonly short: number; readonly long: number },
  faults: readonly RedisFault[],
): Promise<CaseReport> {
  const first = system.answers.length;
  const load = startLoad(system, context.pick({ short: 4, long: 16 }));
  const runIds: string[] = [];
  const recoveryMs: number[] = [];
  let loaded: LoadReport;
  try {
    for (let round = 0; round < context.pick(rounds); round += 1) {
      for (const { harm, heal, frozen = false, passing = false, afterwards } of faults) {
        const before = load.completed();
        await eventually(() => load.completed() > before, { timeoutMs: 60_000, what: 'the load to go on' });
        const held = await startActing(system, TOOLS.effectful);
        const still = frozen ? system.aliveRunners() : [];
        for (const runner of still) runner.signal('SIGSTOP');
        await harm();
        let since: number;
        let accepted: readonly string[] = [];
        try {
          accepted = await Promise.all(Array.from({ length: 8 }, () => acceptRun(system)));
          runIds.push(...accepted);
          if (!passing) await expectQueued(system, accepted);
          // Whoever is ready takes runs: the database has them, the ring comes later.
          await expectGatewaysReady(system, 200);
          if (!frozen) await expectAlive(system);
        } finally {
          since = performance.now();
          await heal();
          for (const runner of still) runner.signal('SIGCONT');
        }
        await recovered(system, since);
        // As usual is it again when those have ended, too, whose rings were lost.
        await Promise.all(accepted.map((id) => system.waitForEnd(id)));
        recoveryMs.push(performance.now() - since);
        await system.sink.release(held.call.id);
        runIds.push(held.run.id);
        await afterwards?.();
      }
    }
  } finally {
    loaded = await load.stop();
  }
  runIds.push(...loaded.runIds);
  const doubled = loaded.doubled + (await claimedTwice(system, runIds));
  const slowest = Math.round(Math.max(...recoveryMs));
  return {
    doubled,
    recoveryMs: slowest,
    detail: `${recoveryMs.length} faults under ${runIds.length} runs; clients saw ${summaryOf(system.answers.slice(first))}`,
  };
}

async function acceptRun(system: FaultSystem): Promise<string> {
  const { id } = await system.start({ script: [{ text: 'done' }], idempotencyKey: randomUUID() });
  return id;
}

/** Claims beyond the first that no lease that ran out explains. Throws when a run has not completed. */
async function claimedTwice(system: FaultSystem, runIds: readonly string[]): Promise<number> {
  let doubled = 0;
  for (const id of runIds) {
    const { status, stopReason, attempt } = await system.waitForEnd(id);
    if (status !== 'completed') throw new Error(`run ${id} is ${status} (${stopReason})`);
    if (attempt > 1) doubled += Math.max(0, attempt - 1 - leasesRunOut(system, id));
  }
  return doubled;
}

/** Throws when one of the runs is not queued: the fault was none. */
async function expectQueued({ db }: FaultSystem, runIds: readonly string[]): Promise<void> {
  const { rows } = await db.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM runs WHERE id = ANY ($1) AND status = 'queued'",
    [runIds],
  );
  if (rows[0]?.n !== runIds.length)
    throw new Error(`${rows[0]?.n} of ${runIds.length} runs were queued while nobody could take them`);
}
