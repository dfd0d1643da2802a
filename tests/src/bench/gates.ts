// What a gate costs: this process → plugin-host → TypeScript plugin → back, against two bare gRPC hops over the same
// kinds of sockets, in the same run and in alternating rounds. The plugin's hop is mutual TLS, as in production; the
// floor is plain, and a second floor shows what TLS alone adds.
import { setMaxListeners } from 'node:events';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { GateCall, Message } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { connectPluginHosts } from '@codedock/plugin-bridge';
import { createHostIdentity } from '@codedock/plugin-sdk/testing';
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
import { type Amount, type Measured, measure, type Subject } from './load.js';
import { median, printTable, rounded } from './statistics.js';

const asJson = process.argv.includes('--json');
const AMOUNT: Amount = process.argv.includes('--quick')
  ? { rounds: 4, calls: 60, wideCalls: 200 }
  : { rounds: 12, calls: 100, wideCalls: 400 };
const TOKEN = 'token-of-a-benchmark-on-loopback-only';

interface Floor {
  readonly pids: readonly number[];
  call(payload: Buffer): Promise<Buffer>;
}

async function main(): Promise<void> {
  const folder = await temporaryFolder('codedock-bench-');
  const closing: (() => unknown)[] = [() => folder.remove()];
  const start = async (
    name: string,
    args: string[],
    ready: RegExp | string,
    env: Record<string, string> = {},
  ): Promise<TestProcess> => {
    const started = await startProcess({ name, command: process.execPath, args, ready, env });
    closing.push(() => started.stop());
    return started;
  };
  const startFloor = async (name: string, env: Record<string, string>): Promise<Floor> => {
    const program = path.join(__dirname, 'floor-process.js');
    const socket = `unix:${path.join(folder.path, `${name}.sock`)}`;
    const listen = `127.0.0.1:${await freePort()}`;
    const end = await start(`${name} end`, [program, socket], /listening/, env);
    const middle = await start(`${name} middle`, [program, listen, socket], /listening/, env);
    const client = floorClient(listen);
    closing.push(() => client.close());
    return { pids: [middle.pid, end.pid], call: client.call };
  };
  try {
    const plain = await startFloor('plain', {});
    const tls = await startFloor('tls', { FLOOR_TLS: JSON.stringify(await createHostIdentity()) });

    const pluginRoot = path.join(folder.path, 'plugins');
    await mkdir(pluginRoot, { mode: 0o755 });
    await writePlugin(pluginRoot, 'echo', { source: ECHO_PLUGIN });
    const hostApi = await startHostApi(TOKEN);
    closing.push(() => hostApi.close());
    const [gatePort, healthPort] = [await freePort(), await freePort()];
    const host = await start(
      'plugin-host',
      [path.join(repositoryRoot(), 'apps/plugin-host/dist/main.js')],
      `http://127.0.0.1:${healthPort}/readyz`,
      {
        CODEDOCK_PLUGIN_DIR: pluginRoot,
        PLUGIN_HOST_LISTEN: `127.0.0.1:${gatePort}`,
        CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
        CODEDOCK_HOST_API_URL: hostApi.address,
        CODEDOCK_INTERNAL_TOKEN: TOKEN,
        CODEDOCK_LOG_LEVEL: 'warn',
      },
    );
    const hosts = connectPluginHosts({ urls: [`127.0.0.1:${gatePort}`], token: TOKEN });
    closing.push(() => hosts.close());
    await eventually(() => hosts.readiness().ready, { what: 'the plugin chain' });
    const [listed] = await hosts.plugins.list();
    const plugin = listed?.ok === true ? listed.value[0] : undefined;
    if (plugin === undefined) throw new Error('the plugin-host lists no plugin');
    const pids = [host.pid, plugin.pid];

    const rows: (string | number)[][] = [];
    let json: Record<string, number> = {};
    for (const kib of [1, 64]) {
      const [floor, floorTls, gate] = (await measure(
        [
          floorSubject('floor', plain, kib),
          floorSubject('floor, second hop TLS', tls, kib),
          gateSubject(hosts.hooks(), pids, kib),
        ],
        AMOUNT,
      )) as [Measured, Measured, Measured];
      const ratios = {
        gate_p50_ratio: rounded(gate.p50 / floor.p50),
        gate_p99_ratio: rounded(gate.p99 / floor.p99),
        gate_throughput_ratio: rounded(gate.perSecond / floor.perSecond),
      };
      rows.push(row(`${kib} KiB floor`, floor, floor));
      rows.push(row(`${kib} KiB floor, second hop TLS`, floorTls, floor));
      rows.push(row(`${kib} KiB gate`, gate, floor));
      if (kib === 1) {
        const [caller = Number.NaN, pluginHost = Number.NaN, plugin = Number.NaN] = gate.cpu.map(Math.round);
        json = { ...ratios, caller_cpu_us: caller, plugin_host_cpu_us: pluginHost, plugin_cpu_us: plugin };
      }
    }
    const unsubscribed = rounded(await unsubscribedMicroseconds(hosts.hooks()));
    printTable(HEADS, rows);
    console.log(
      'CPU: caller + middle (plugin-host) + end (plugin), µs per call with 32 in flight. Ratios are against the plain floor.',
    );
    console.log(`gate without subscriber: ${unsubscribed} µs`);
    if (asJson) console.log(JSON.stringify({ ...json, unsubscribed_us: unsubscribed }));
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

const ECHO_PLUGIN = `import { serve } from '@codedock/plugin-sdk';
serve({ name: 'echo', version: '1.0.0', onAgentRequest: (input) => input.reply() });`;

const HEADS = ['', 'p50 ms', 'p99 ms', '32-way/s', 'p50 ×', 'p99 ×', '32-way ×', 'CPU µs', 'CPU ×'];

function row(name: string, one: Measured, floor: Measured): (string | number)[] {
  const total = sum(one.cpu);
  return [
    name,
    rounded(one.p50),
    rounded(one.p99),
    Math.round(one.perSecond),
    rounded(one.p50 / floor.p50),
    rounded(one.p99 / floor.p99),
    rounded(one.perSecond / floor.perSecond),
    one.cpu.map(Math.round).join(' + ') || 'unknown',
    total === 0 ? 'unknown' : rounded(total / sum(floor.cpu)),
  ];
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function floorSubject(name: string, floor: Floor, kib: number): Subject {
  const payload = Buffer.alloc(kib * 1024, 'x');
  return { name, pids: floor.pids, call: () => floor.call(payload) };
}

function gateSubject(hooks: Hooks, pids: readonly number[], kib: number): Subject {
  const event = { systemPrompt: 'You are careful.', messages: [message('x'.repeat(kib * 1024 - 350))] };
  return {
    name: 'gate',
    pids,
    async call() {
      const call = gateCall();
      const answer = await hooks.transformContext?.(event, call);
      if (answer === undefined || answer.kind === 'could_not_ask' || call.records.length !== 1)
        throw new Error(`the gate was not asked: ${JSON.stringify(answer)}`);
    },
  };
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

const PRINCIPAL = { tenant: 't', key: 'bench', agent: 'default', metadata: {} };
// As in a run: one signal for all its gates.
const { signal } = new AbortController();
setMaxListeners(0, signal);

function gateCall(): GateCall {
  const records: GateCall['records'][number][] = [];
  return {
    site: { tenantId: 't', sessionId: 's', runId: 'r', turnId: 'u' },
    principal: PRINCIPAL,
    signal,
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
