import { readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '@codedock/testkit';
import { fakeScript } from '../../system.js';
import { ACTING, TOOLS } from '../effects/acting-plugin.js';
import { type CaseContext, type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem, RunInput } from '../fault-system.js';
import { expectAlive } from '../health.js';
import { expectAnswered, failedClosed, recovered, startLoad, summaryOf, UNASKED } from '../load.js';
import { pidsOf, processesOf } from '../processes.js';
import { type SmallDisk, smallDisk } from '../small-disk.js';

/** More than the suite's plugins take, and soon full, MiB. */
const DISK_MIB = 16;
const LANES = 4;
/** So many that some have begun after the disk was full. */
const FULL_RUNS = 2 * LANES;
/** Inputs sent while the plugin cannot be started: each takes a budget, and a plugin that is long away is started again late. */
const REFUSALS = 1;
/** A run that asks every gate of the plugin, and acts. */
const SCRIPT: RunInput['script'] = [
  { toolCalls: [{ name: TOOLS.effectful, arguments: {} }], delayMs: 200 },
  { toolCalls: [{ name: TOOLS.idempotent, arguments: {} }] },
  { text: 'done' },
];

/** O8: the plugin-host's temporary folder is full: plugins that run go on, none can be started. Then there is space again. */
export const fullTemporaryFolder: FaultCase = {
  id: 'O8',
  title: 'the temporary folder of the plugin-host is full',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const disk = await smallDisk(DISK_MIB);
    if ('missing' in disk) return { detail: `skipped: ${disk.missing}` };
    const system = await context.start({
      gateways: 1,
      runners: 2,
      pluginHostEnv: { TMPDIR: disk.path },
      leftBehind: () => [
        ...processesOf(disk.path).map((name) => `the process ${name}`),
        ...readdirSync(disk.path).map((name) => `the file ${name}`),
      ],
      ended: () => disk.remove(),
    });
    return inFullFolder(context, system, disk);
  },
};

async function inFullFolder(context: CaseContext, system: FaultSystem, disk: SmallDisk): Promise<CaseReport> {
  const first = system.answers.length;
  const recoveries: number[] = [];
  const load = startLoad(system, LANES, SCRIPT, failedClosed);
  const goesOn = (runs: number) => {
    const before = load.completed();
    return eventually(() => load.completed() >= before + runs, { timeoutMs: 60_000, what: 'the load to go on' });
  };
  let runIds: readonly string[];
  try {
    for (let round = 0; round < context.pick({ short: 1, long: 5 }); round += 1) {
      await goesOn(1);
      await whileFull(disk, async () => {
        await expectReloadRefused(system, disk);
        const before = await blockedRuns(system);
        await goesOn(FULL_RUNS);
        const blocked = (await blockedRuns(system)) - before;
        if (blocked > 0) throw new Error(`${blocked} runs were blocked although the plugin runs`);
        await killForGood(system, disk);
        await expectInputRefused(system);
        await expectAlive(system);
      });
      recoveries.push(await recovered(system, performance.now()));
      await goesOn(1);
    }
  } finally {
    ({ runIds } = await load.stop());
  }
  expectAnswered(system, first);
  return {
    recoveryMs: Math.max(...recoveries),
    detail: `full ${recoveries.length} times under ${runIds.length} runs; clients saw ${summaryOf(system.answers.slice(first))}`,
  };
}

/** Acts while the disk is full, and stays so whatever ends; gives the space back then. */
async function whileFull(disk: SmallDisk, act: () => Promise<void>): Promise<void> {
  await eventually(() => foldersOn(disk).length === 1, {
    timeoutMs: 30_000,
    what: 'one folder, of the plugin that runs',
  });
  await disk.fill();
  // An open file keeps its space: what a plugin that ends gives back would do for the next one.
  const held = await Promise.all(foldersOn(disk).map((name) => open(path.join(disk.path, name, '.owner'))));
  try {
    await act();
  } finally {
    await Promise.all(held.map((file) => file.close()));
    await disk.free();
  }
}

async function blockedRuns({ db }: FaultSystem): Promise<number> {
  const { rows } = await db.query<{ n: number }>("SELECT count(*)::int AS n FROM runs WHERE status = 'blocked'");
  return rows[0]?.n ?? 0;
}

const foldersOn = (disk: SmallDisk) => readdirSync(disk.path).filter((name) => name.startsWith('cdph-'));

/** The old process stays. That an administrator has acted also makes earlier rounds no reason to wait longer for a start. */
async function expectReloadRefused({ api }: FaultSystem, disk: SmallDisk): Promise<void> {
  const { status, body } = await api('POST', `/v1/plugins/${ACTING}/reload`, {});
  const answer = JSON.stringify(body);
  if (status !== 422 || !answer.includes(remedyFor(disk)))
    throw new Error(`a reload on a full disk was answered with ${status} ${answer}`);
}

/** Kills the plugin; resolves when the log says that it cannot be started again, and why. */
async function killForGood({ pluginHosts }: FaultSystem, disk: SmallDisk): Promise<void> {
  const logged = () => pluginHosts.map((host) => host.output()).join('');
  const from = logged().length;
  const pids = pidsOf(`TMPDIR=${path.join(disk.path, 'cdph-')}`);
  if (pids.length === 0) throw new Error('no plugin has its folder on the small disk');
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  await eventually(() => logged().slice(from).includes(remedyFor(disk)), {
    timeoutMs: 30_000,
    what: 'the plugin-host to say that its temporary folder is full',
  });
}

const remedyFor = (disk: SmallDisk): string =>
  `the temporary folder ${disk.path} is full (ENOSPC); free space there, or set TMPDIR of this host`;

/** Inputs are refused by the gate. */
async function expectInputRefused(system: FaultSystem): Promise<void> {
  const session = await system.createSession();
  for (let sent = 0; sent < REFUSALS; sent += 1) {
    const { status, body } = await system.api('POST', `/v1/sessions/${session}/runs`, {
      content: fakeScript(...SCRIPT),
    });
    if (status !== 503 || !UNASKED.has(body['code']))
      throw new Error(`input for a plugin that cannot be started was answered with ${status} ${JSON.stringify(body)}`);
  }
}
