// Reloads a plugin again and again while its gate is asked 50 times a second. No call may fail or go unasked, and the
// plugin-host must not grow: file descriptors, zombies, memory. --long reloads 10,000 times. The last line is one JSON
// value; a failed call ends it with exit code 1, and so does growth, unless it is started with --no-limits.
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { GateCall } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { eventually, temporaryFolder, writePlugin } from '@codedock/testkit';
import { judgesFigures, missed } from './limits.js';
import { type MatrixHost, startMatrixHost } from './plugin-host.js';

const PLUGIN = 'policy';
const reloads = reloadsOf(process.argv.slice(2));
const warmUp = Math.min(50, Math.ceil(reloads / 5));
const everyMs = 20;
const LIMITS = {
  fd_delta: { max: 5 },
  zombies: { max: 0 },
  // Before that the heap has not found its size, and the figure says nothing.
  ...(reloads < 500 ? {} : { rss_growth_mb: { max: 20 } }),
};

const POLICY = `import { serve } from '@codedock/plugin-sdk';
serve({ name: '${PLUGIN}', version: '1.0.0', onAgentInput: (input) => input.reply({ content: input.content + '!' }) });`;

interface Size {
  readonly descriptors: number;
  readonly zombies: number;
}

async function main(): Promise<void> {
  const folder = await temporaryFolder('codedock-reload-');
  const pluginRoot = path.join(folder.path, 'plugins');
  await mkdir(pluginRoot, { mode: 0o755 });
  try {
    await writePlugin(pluginRoot, PLUGIN, { source: POLICY });
    const host = await startMatrixHost(pluginRoot);
    const load = startLoad(host.hosts.hooks());
    try {
      await reloadTimes(host, warmUp);
      const before = await settledSize(host);
      const began = performance.now();
      const resident = await reloadTimes(host, reloads);
      const seconds = (performance.now() - began) / 1_000;
      const after = await settledSize(host);
      const { calls, failed } = await load.stop();
      const generation = (await host.statusOf(PLUGIN)).generation;
      console.log(`${reloads} reloads in ${Math.round(seconds)} s, generation ${generation}, ${calls} calls meanwhile`);
      for (const [what, count] of failed) console.error(`${count} × ${what}`);
      const figures = {
        reloads,
        failed_calls: [...failed.values()].reduce((sum, count) => sum + count, 0),
        fd_delta: after.descriptors - before.descriptors,
        zombies: after.zombies,
        rss_growth_mb: Math.round(growthOfFloor(resident) * 10) / 10,
      };
      const misses = judgesFigures(process.argv) ? missed(figures, LIMITS) : [];
      for (const miss of misses) console.error(miss);
      console.log(JSON.stringify(figures));
      process.exitCode = failed.size + misses.length === 0 ? 0 : 1;
    } finally {
      await load.stop();
      await host.close();
    }
  } finally {
    await folder.remove();
  }
}

/** `--quick`, `--long` or `--reloads=<n>`; 1,000 without any of them. */
function reloadsOf(options: readonly string[]): number {
  if (options.includes('--quick')) return 50;
  if (options.includes('--long')) return 10_000;
  return Number(/--reloads=(\d+)/.exec(options.join(' '))?.[1] ?? 1_000);
}

/** Reloads one after the other; answers the host's resident memory after each, in MiB. */
async function reloadTimes(host: MatrixHost, times: number): Promise<number[]> {
  const resident: number[] = [];
  for (let time = 1; time <= times; time += 1) {
    const [answer] = await host.hosts.plugins.reload(PLUGIN);
    if (answer?.ok !== true) throw new Error(`a reload failed: ${answer?.message ?? 'nobody answered'}`);
    resident.push(residentMb(host.process.pid));
    if (time % 100 === 0) console.log(`${time} reloads, ${Math.round(resident.at(-1) ?? 0)} MiB resident`);
  }
  return resident;
}

/**
 * By how much the memory that is left after collections has grown: the least of the last fifth less that of the first.
 * Between collections the size says nothing.
 */
function growthOfFloor(resident: readonly number[]): number {
  const part = Math.ceil(resident.length / 5);
  return Math.min(...resident.slice(-part)) - Math.min(...resident.slice(0, part));
}

/** Asks at a steady rate, whatever earlier questions take; counts what is no answer of the plugin. */
function startLoad(hooks: Hooks) {
  const failed = new Map<string, number>();
  const open = new Set<Promise<void>>();
  let calls = 0;
  const askOnce = async () => {
    calls += 1;
    const decision = await hooks.beforeInput?.({ content: 'x' }, gateCall());
    const isRight = decision?.kind === 'transform' && decision.content === 'x!';
    const what = isRight ? '' : JSON.stringify(decision);
    if (!isRight) failed.set(what, (failed.get(what) ?? 0) + 1);
  };
  const began = performance.now();
  const timer = setInterval(() => {
    // A busy machine wakes this up late: what is due by then is asked at once.
    const due = Math.floor((performance.now() - began) / everyMs);
    while (calls < due) {
      const asked = askOnce();
      open.add(asked);
      void asked.finally(() => open.delete(asked));
    }
  }, everyMs);
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(open);
      return { calls, failed };
    },
  };
}

/** The host's size once the processes of earlier generations are gone. */
async function settledSize({ process: host }: MatrixHost): Promise<Size> {
  await eventually(() => childrenOf(host.pid).filter(({ state }) => state !== 'Z').length <= 2, {
    what: 'the end of replaced generations',
    timeoutMs: 60_000,
  });
  // A descriptor is closed a moment after what it belonged to is over.
  let smallest = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 20; look += 1) {
    smallest = Math.min(smallest, readdirSync(`/proc/${host.pid}/fd`).length);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    descriptors: smallest,
    zombies: childrenOf(host.pid).filter(({ state }) => state === 'Z').length,
  };
}

function residentMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1_024;
}

function childrenOf(parent: number): { readonly pid: number; readonly state: string }[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const [state = '', parentId] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return Number(parentId) === parent ? [{ pid: Number(name), state }] : [];
    } catch {
      return [];
    }
  });
}

function gateCall(): GateCall {
  const records: GateCall['records'][number][] = [];
  return {
    site: { tenantId: 't', sessionId: 's', runId: 'r', turnId: 'u' },
    principal: { tenant: 't', key: 'reload', agent: 'default', metadata: {} },
    signal: new AbortController().signal,
    scratchpad: {},
    merge: () => undefined,
    record: (record) => void records.push(record),
    records,
  };
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
