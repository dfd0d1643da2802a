// Every seam × every fault, with a real plugin-host process and real plugins: is the decision the one that the contract
// demands, and does it come in time? The last line is one JSON value; a wrong decision ends it with exit code 1, and so
// does a figure out of its limits, unless it is started with --no-limits.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { eventually, temporaryFolder, writePlugin } from '@codedock/testkit';
import { percentile } from '../bench/statistics.js';
import { CRASHING, FAULTS, type Fault, HANGING, PARALYSED } from './faults.js';
import { judgesFigures, missed } from './limits.js';
import { FAULTY, writeMatrixPlugins } from './matrix-plugins.js';
import { type MatrixHost, startMatrixHost } from './plugin-host.js';
import { type Seam, seams } from './seams.js';

const repeats = process.argv.includes('--quick') ? 1 : 3;

const LIMITS = {
  hang_min_ms: { min: 1_850 },
  hang_p99_ms: { max: 2_100 },
  crash_p99_ms: { max: 100 },
  dead_p99_ms: { max: 20 },
  five_hanging_max_ms: { max: 2_100 },
};

interface Times {
  readonly hang: number[];
  readonly crash: number[];
  readonly dead: number[];
}

async function main(): Promise<void> {
  const folder = await temporaryFolder('codedock-matrix-');
  const heardFile = path.join(folder.path, 'heard');
  const pluginRoot = path.join(folder.path, 'plugins');
  const times: Times = { hang: [], crash: [], dead: [] };
  const wrong: string[] = [];
  let cells = 0;
  try {
    await writeMatrixPlugins(pluginRoot, heardFile);
    const host = await startMatrixHost(pluginRoot);
    try {
      for (const seam of seams(heardFile)) {
        const row: string[] = [];
        for (const fault of FAULTS) {
          cells += 1;
          const rounds = HANGING.has(fault) ? 1 : repeats;
          let slowest = 0;
          for (let round = 0; round < rounds; round += 1) {
            const { ms, problems } = await cell(host, seam, fault, times);
            slowest = Math.max(slowest, ms);
            wrong.push(...problems);
          }
          row.push(`${fault} ${Math.round(slowest)} ms`);
        }
        console.log(`${seam.name}: ${row.join(' · ')}`);
      }
    } finally {
      await host.close();
    }
  } finally {
    await folder.remove();
  }
  const crowdMs = await hangingCrowd(wrong);
  for (const line of wrong) console.error(line);
  const p99 = (values: readonly number[]) => Math.round(percentile(values, 0.99) * 10) / 10;
  const figures = {
    cells,
    wrong_decisions: wrong.length,
    hang_min_ms: Math.round(Math.min(...times.hang)),
    hang_p99_ms: p99(times.hang),
    crash_p99_ms: p99(times.crash),
    dead_p99_ms: p99(times.dead),
    five_hanging_max_ms: Math.round(crowdMs),
  };
  const misses = judgesFigures(process.argv) ? missed(figures, LIMITS) : [];
  for (const miss of misses) console.error(miss);
  console.log(JSON.stringify(figures));
  process.exitCode = wrong.length + misses.length === 0 ? 0 : 1;
}

/** Five plugins that hang on one gate share its budget: how long the slowest of a veto and a rewrite port takes. */
async function hangingCrowd(wrong: string[]): Promise<number> {
  const folder = await temporaryFolder('codedock-crowd-');
  let slowest = 0;
  try {
    for (const port of ['agent/input', 'agent/request'] as const) {
      const pluginRoot = path.join(folder.path, port.replace('/', '-'));
      await mkdir(pluginRoot, { mode: 0o755 });
      for (let at = 1; at <= 5; at += 1) await writePlugin(pluginRoot, `hangs-${at}`, { mode: 'hang', port });
      const host = await startMatrixHost(pluginRoot);
      try {
        const seam = seams('').find(({ name }) => name === port);
        const began = performance.now();
        const decision = await seam?.decide(host.hosts, 'hang');
        slowest = Math.max(slowest, performance.now() - began);
        const right = port === 'agent/input' ? 'could not ask: gate_timeout by hangs-1' : '';
        if (decision !== right) wrong.push(`${port} × five that hang: ${decision}; right is ${right}`);
      } finally {
        await host.close();
      }
    }
  } finally {
    await folder.remove();
  }
  console.log(`five that hang on one gate: ${Math.round(slowest)} ms`);
  return slowest;
}

/** One fault at one seam, and after it the plugin well again: a late answer must not reach the next question. */
async function cell(
  host: MatrixHost,
  seam: Seam,
  fault: Fault,
  times: Times,
): Promise<{ readonly ms: number; readonly problems: string[] }> {
  const problems: string[] = [];
  const decide = async (what: Fault | 'none') => {
    const began = performance.now();
    const decision = await seam.decide(host.hosts, what);
    const ms = performance.now() - began;
    if (!seam.expected(what).includes(decision))
      problems.push(`${seam.name} × ${fault}: ${decision}; right is ${seam.expected(what).join(' or ')}`);
    return ms;
  };
  if (fault === 'dead') await kill(host);
  const ms = await decide(fault);
  if (seam.name !== 'Notify') {
    if (HANGING.has(fault)) times.hang.push(ms);
    if (CRASHING.has(fault)) times.crash.push(ms);
    if (fault === 'dead') times.dead.push(ms);
  }
  if (PARALYSED.has(fault)) await kill(host);
  if (PARALYSED.has(fault) || CRASHING.has(fault) || fault === 'dead') await revive(host);
  await decide('none');
  return { ms, problems };
}

async function kill(host: MatrixHost): Promise<void> {
  const { pid } = await host.statusOf(FAULTY);
  if (pid !== 0) process.kill(pid, 'SIGKILL');
  await eventually(async () => (await host.statusOf(FAULTY)).state === 'failed', { what: 'the end of the plugin' });
}

async function revive(host: MatrixHost): Promise<void> {
  // An event is handled after the call is over: what it does to the process comes later.
  await eventually(async () => (await host.statusOf(FAULTY)).state === 'failed', { what: 'the end of the plugin' });
  await host.hosts.plugins.start(FAULTY);
  await eventually(() => isReady(host), { what: 'the plugin, started again' });
}

/** Ready at the host, and known to be so here. */
async function isReady(host: MatrixHost): Promise<boolean> {
  if ((await host.statusOf(FAULTY)).state !== 'ready') return false;
  return host.hosts.ports().every(({ subscribers }) => subscribers.every(({ ready }) => ready));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
