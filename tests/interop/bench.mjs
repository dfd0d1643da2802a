#!/usr/bin/env node
// What this host costs before a Go plugin: a gate through the chain of a plugin-host in this process against a bare
// grpc-js call of the same plugin process, in turns. Needs a build and the peers (run.mjs). Last line: JSON.
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { root } from '../../scripts/workspace/root.mjs';

const require = createRequire(join(root, 'apps/plugin-host/package.json'));
const { PluginHost, readPluginHostConfig } = require('./dist/index.js');
const { createLogger } = require('@codedock/platform');
const { host: hostApi, plugin } = require('@codedock/proto');
const grpc = require('@grpc/grpc-js');

const ROUNDS = 7;
const CALLS = 700;
const startMs = 20_000;

const folder = mkdtempSync(join(tmpdir(), 'cdb-'));
const gateway = new grpc.Server();
let host;
let client;
try {
  await main();
} finally {
  client?.close();
  await host?.drain(1_000);
  gateway.forceShutdown();
  rmSync(folder, { recursive: true, force: true });
}

async function main() {
  host = await startHost();
  client = new plugin.PluginClient(`unix:${socketOf(host)}`, grpc.credentials.createInsecure());
  const envelope = plugin.Envelope.fromPartial({
    type: 'agent/input',
    chainId: 'chain',
    sessionId: 'session',
    payload: Buffer.from(JSON.stringify({ content: 'x'.repeat(256) })),
    context: Buffer.from('{}'),
  });
  const request = { port: 'agent/input', envelope, minChainEpoch: 0, budgetMs: 2_000, toolName: '' };
  const gate = async () => {
    const { failure, outcomes } = await host.dispatch(request);
    if (failure !== undefined || outcomes[0]?.outcome !== 'continued') throw new Error(JSON.stringify(outcomes));
  };
  const metadata = new grpc.Metadata();
  const bare = () =>
    new Promise((resolve, reject) => {
      const deadline = Date.now() + 2_000;
      client.onEvent(envelope, metadata, { deadline }, (error) => (error === null ? resolve() : reject(error)));
    });
  await inTurns(bare, gate, CALLS);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await inTurns(bare, gate, CALLS));
  const middle = (pick) => percentile(rounds.map(pick), 0.5);
  const figures = {
    bare_p50_ms: middle(({ first }) => percentile(first, 0.5)),
    gate_p50_ms: middle(({ second }) => percentile(second, 0.5)),
    bare_p99_ms: middle(({ first }) => percentile(first, 0.99)),
    gate_p99_ms: middle(({ second }) => percentile(second, 0.99)),
    // Per round, so that what else the machine does meanwhile weighs on both.
    p50_ratio: middle(({ first, second }) => percentile(second, 0.5) / percentile(first, 0.5)),
  };
  console.log(
    JSON.stringify(figures, (_, value) => (typeof value === 'number' ? Number(value.toPrecision(3)) : value)),
  );
}

/** Calls one after the other, and the other: both meet the same machine. */
async function inTurns(one, other, calls) {
  const first = [];
  const second = [];
  for (let call = 0; call < calls; call += 1) {
    first.push(await timed(one));
    second.push(await timed(other));
  }
  return { first, second };
}

async function timed(call) {
  const begin = performance.now();
  await call();
  return performance.now() - begin;
}

function percentile(samples, share) {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

async function startHost() {
  const { go } = JSON.parse(readFileSync(join(root, '.codedock/interop/peers.json'), 'utf8'));
  if (go.absent !== undefined) throw new Error(go.absent);
  const plugins = join(folder, 'plugins');
  mkdirSync(join(plugins, 'go'), { recursive: true });
  copyFileSync(go.plugin, join(plugins, 'go', 'go'));
  // The bare call has no certificate of the host's.
  writeFileSync(join(plugins, 'go', 'plugin.json'), JSON.stringify({ autoMtls: false }));
  gateway.addService(hostApi.HostApiService, {
    getDesired: (_, answer) => answer(null, { chainEpoch: 1, disabled: [] }),
    recordPluginEvent: (_, answer) => answer(null, {}),
  });
  const port = await new Promise((resolve, reject) => {
    const insecure = grpc.ServerCredentials.createInsecure();
    gateway.bindAsync('127.0.0.1:0', insecure, (error, bound) => (error === null ? resolve(bound) : reject(error)));
  });
  const config = readPluginHostConfig({
    CODEDOCK_PLUGIN_DIR: plugins,
    CODEDOCK_HOST_API_URL: `127.0.0.1:${port}`,
    CODEDOCK_INTERNAL_TOKEN: 'a-token-of-a-benchmark-on-loopback',
  });
  const log = createLogger({ app: 'bench', level: 'silent', format: 'json' });
  const started = new PluginHost(config, log, { PATH: process.env.PATH });
  await started.start();
  for (const deadline = Date.now() + startMs; !started.ready; await delay(20)) {
    if (Date.now() > deadline) throw new Error(`the plugin is not ready: ${started.snapshot().reason}`);
  }
  return started;
}

/** The socket on which the plugin's process listens. */
function socketOf(running) {
  const { pid } = running.listPlugins().plugins[0];
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  const directory = environment.find((one) => one.startsWith('PLUGIN_UNIX_SOCKET_DIR='))?.split('=')[1] ?? '';
  const name = readdirSync(directory).find(
    (one) => one.startsWith('plugin') && statSync(join(directory, one)).isSocket(),
  );
  if (name === undefined) throw new Error(`the plugin has no socket in ${directory}`);
  return join(directory, name);
}
