// What a gate costs: this process → plugin-host → TypeScript plugin → back, against two bare gRPC hops over the same
// kinds of sockets, in the same run and in alternating rounds.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { GateCall, Message } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { connectPluginHosts } from '@codedock/plugin-bridge';
import {
  eventually,
  freePort,
  repositoryRoot,
  startProcess,
  type TestProcess,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';

import { floorClient } from './floor-process.js';
import { startHostApi } from './host-api.js';
import { sequence, throughput } from './load.js';
import { median, percentile, printTable, rounded } from './statistics.js';

const asJson = process.argv.includes('--json');
const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 2 : 5;
const CALLS = quick ? 300 : 1_500;
const WIDE_CALLS = quick ? 600 : 3_000;
const TOKEN = 'token-of-a-benchmark-on-loopback-only';

interface Series {
  p50: number[];
  p99: number[];
  perSecond: number[];
}

async function main(): Promise<void> {
  const folder = await temporaryFolder('codedock-bench-');
  const processes: TestProcess[] = [];
  const pluginRoot = path.join(folder.path, 'plugins');
  await mkdir(pluginRoot, { mode: 0o755 });
  await writePlugin(pluginRoot, 'echo', {
    source: `import { serve } from '@codedock/plugin-sdk'; serve({ name: 'echo', version: '1.0.0', onAgentRequest: (input) => input.reply() });`,
  });
  const hostApi = await startHostApi(TOKEN);
  const [gatePort, healthPort, forwardPort] = [await freePort(), await freePort(), await freePort()];
  const echoSocket = `unix:${path.join(folder.path, 'echo.sock')}`;
  const floor = path.join(__dirname, 'floor-process.js');
  const start = async (args: string[], ready: RegExp | string, env: Record<string, string> = {}) => {
    const started = await startProcess({ command: process.execPath, args, ready, env });
    processes.push(started);
    return started;
  };
  await start([floor, echoSocket], /listening/);
  await start([floor, `127.0.0.1:${forwardPort}`, echoSocket], /listening/);
  await start([path.join(repositoryRoot(), 'apps/plugin-host/dist/main.js')], `http://127.0.0.1:${healthPort}/readyz`, {
    CODEDOCK_PLUGIN_DIR: pluginRoot,
    PLUGIN_HOST_LISTEN: `127.0.0.1:${gatePort}`,
    CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
    CODEDOCK_HOST_API_URL: hostApi.address,
    CODEDOCK_INTERNAL_TOKEN: TOKEN,
    CODEDOCK_LOG_LEVEL: 'warn',
  });
  const hosts = connectPluginHosts({ urls: [`127.0.0.1:${gatePort}`], token: TOKEN });
  const bare = floorClient(`127.0.0.1:${forwardPort}`);
  try {
    await eventually(() => hosts.readiness().ready, { what: 'the plugin chain' });
    const hooks = hosts.hooks();
    const table: (string | number)[][] = [];
    let json: Record<string, number> = {};
    for (const kib of [1, 64]) {
      const { gate, floor: base } = await compare(hooks, bare, kib);
      const ratios = {
        gate_p50_ratio: rounded(median(gate.p50) / median(base.p50)),
        gate_p99_ratio: rounded(median(gate.p99) / median(base.p99)),
        gate_throughput_ratio: rounded(median(gate.perSecond) / median(base.perSecond)),
      };
      table.push([
        `${kib} KiB floor`,
        rounded(median(base.p50)),
        rounded(median(base.p99)),
        Math.round(median(base.perSecond)),
        '',
        '',
        '',
      ]);
      table.push([
        `${kib} KiB gate`,
        rounded(median(gate.p50)),
        rounded(median(gate.p99)),
        Math.round(median(gate.perSecond)),
        ...Object.values(ratios),
      ]);
      if (kib === 1) json = ratios;
    }
    const unsubscribed = await unsubscribedMicroseconds(hooks);
    if (!asJson) {
      printTable(['', 'p50 ms', 'p99 ms', '32-way calls/s', 'p50 ratio', 'p99 ratio', 'throughput ratio'], table);
      console.log(`gate without subscriber: ${rounded(unsubscribed)} µs`);
    } else {
      printTable(['', 'p50 ms', 'p99 ms', '32-way calls/s', 'p50 ratio', 'p99 ratio', 'throughput ratio'], table);
      console.log(JSON.stringify({ ...json, unsubscribed_us: rounded(unsubscribed) }));
    }
  } finally {
    bare.close();
    await hosts.close();
    for (const started of processes.reverse()) await started.stop();
    await hostApi.close();
    await folder.remove();
  }
}

async function compare(
  hooks: Hooks,
  bare: { call(payload: Buffer): Promise<Buffer> },
  kib: number,
): Promise<{ gate: Series; floor: Series }> {
  const event = { systemPrompt: 'You are careful.', messages: [message('x'.repeat(kib * 1024 - 350))] };
  const payload = Buffer.alloc(kib * 1024, 'x');
  const askGate = async () => {
    const call = gateCall();
    const answer = await hooks.transformContext?.(event, call);
    if (answer === undefined || answer.kind === 'could_not_ask' || call.records.length !== 1)
      throw new Error(`the gate was not asked: ${JSON.stringify(answer)}`);
  };
  const askBare = () => bare.call(payload);
  const gate: Series = { p50: [], p99: [], perSecond: [] };
  const floor: Series = { p50: [], p99: [], perSecond: [] };
  await sequence(askBare, CALLS);
  await sequence(askGate, CALLS);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [series, ask] of [
      [floor, askBare],
      [gate, askGate],
    ] as const) {
      const latencies = await sequence(ask, CALLS);
      series.p50.push(percentile(latencies, 0.5));
      series.p99.push(percentile(latencies, 0.99));
      series.perSecond.push(await throughput(ask, WIDE_CALLS));
    }
  }
  return { gate, floor };
}

/** What the loop pays for a gate nobody subscribed to: the call and what it waits for. */
async function unsubscribedMicroseconds(hooks: Hooks): Promise<number> {
  const event = {
    call: { id: 'c', name: 'ping', arguments: {} },
    tool: { requiresApproval: false, effect: 'pure' as const },
  };
  const call = gateCall();
  const calls = 200_000;
  const samples: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const begin = performance.now();
    for (let i = 0; i < calls; i += 1) {
      const decision = hooks.beforeToolCall?.(event, call);
      if (decision instanceof Promise) await decision;
    }
    samples.push(((performance.now() - begin) / calls) * 1_000);
  }
  return median(samples);
}

function gateCall(): GateCall {
  const records: GateCall['records'][number][] = [];
  return {
    site: { tenantId: 't', sessionId: 's', runId: 'r', turnId: 'u' },
    principal: { tenant: 't', key: 'bench', agent: 'default', metadata: {} },
    signal: new AbortController().signal,
    scratchpad: {},
    merge: () => undefined,
    record: (record) => void records.push(record),
    records,
  };
}

function message(text: string): Message {
  return {
    id: 'm',
    sessionId: 's',
    role: 'user',
    content: { text },
    eventSeq: 1,
    createdAt: '2026-01-01T00:00:00.000Z',
  };
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
