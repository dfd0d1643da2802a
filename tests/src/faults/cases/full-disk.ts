import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, type OwnPostgres, startPostgres, startRedis } from '@codedock/testkit';
import { type CaseContext, type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem, RunInput } from '../fault-system.js';
import { expectAlive } from '../health.js';
import { expectAnswered, recovered, startLoad, summaryOf } from '../load.js';
import { type SmallDisk, smallDisk } from '../small-disk.js';

/** Room for a migrated database, its log, and not much more, MiB. */
const DISK_MIB = 256;
/** The log takes little, and the server does not wait long for its turn to write tables. */
const SETTINGS = { min_wal_size: '32MB', max_wal_size: '48MB', shared_buffers: '16MB' };
/** What a run leaves behind: text that nothing compresses. */
const REPLY_BYTES = 48 * 1_024;

/** O5: the disk of the stores is full: PostgreSQL's, and Redis's with its append-only file. Then there is space again. */
export const fullDisk: FaultCase = {
  id: 'O5',
  title: 'the disk of the stores is full',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const disk = await smallDisk(DISK_MIB);
    if ('missing' in disk) return { detail: `skipped: ${disk.missing}` };
    const [postgresFolder, redisFolder] = [path.join(disk.path, 'postgres'), path.join(disk.path, 'redis')];
    await Promise.all([mkdir(postgresFolder), mkdir(redisFolder)]);
    const postgres = await startPostgres({ folder: postgresFolder, settings: SETTINGS });
    const redis = context.profile === 'redis' ? await startRedis({ appendOnly: true, folder: redisFolder }) : undefined;
    const system = await context.start({
      gateways: 1,
      runners: 2,
      database: postgres.database,
      ...(redis === undefined ? {} : { redis }),
      ended: async () => {
        await postgres.stop();
        await redis?.stop();
        await disk.remove();
      },
    });
    return onFullDisk(context, system, disk, postgres);
  },
};

async function onFullDisk(
  context: CaseContext,
  system: FaultSystem,
  disk: SmallDisk,
  postgres: OwnPostgres,
): Promise<CaseReport> {
  const first = system.answers.length;
  const recoveries: number[] = [];
  let waited = 0;
  const script = [{ text: randomBytes(REPLY_BYTES).toString('base64') }];
  const load = startLoad(system, 4, script);
  let runIds: readonly string[];
  try {
    for (let round = 0; round < context.pick({ short: 1, long: 5 }); round += 1) {
      const before = load.completed();
      await eventually(() => load.completed() > before + 4, { timeoutMs: 60_000, what: 'the load to go on' });
      const from = system.answers.length;
      const refused = () => system.answers.slice(from).some(({ status }) => status === 503);
      // Runs that nobody may be rung for any more wait, and their clients with them: others go on sending.
      const more = accepting(system, script, refused);
      more.catch(() => undefined);
      try {
        await eventually(
          async () => {
            await disk.fill();
            return refused();
          },
          { timeoutMs: 60_000, intervalMs: 200, what: 'a client to be refused for now' },
        );
        await delay(1_000);
        await expectAlive(system);
      } finally {
        await disk.free();
      }
      const since = performance.now();
      // A server that could not even write its log has ended; whoever runs it starts it again.
      if (postgres.hasEnded()) await postgres.restart();
      recoveries.push(await recovered(system, since));
      for (const id of await more) {
        const { status, stopReason } = await system.waitForEnd(id);
        if (status !== 'completed') throw new Error(`run ${id} is ${status} (${stopReason})`);
        waited += 1;
      }
    }
  } finally {
    ({ runIds } = await load.stop());
  }
  expectAnswered(system, first);
  return {
    recoveryMs: Math.max(...recoveries),
    detail: `full ${recoveries.length} times under ${runIds.length + waited} runs; clients saw ${summaryOf(system.answers.slice(first))}`,
  };
}

/** Starts runs one after another until `over`; answers those that were accepted. */
async function accepting(
  system: FaultSystem,
  script: RunInput['script'],
  over: () => boolean,
): Promise<readonly string[]> {
  const accepted: string[] = [];
  while (!over()) accepted.push((await system.start({ script, idempotencyKey: randomUUID() })).id);
  return accepted;
}
