import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { GateCall, HookRecord, JsonObject, ScratchpadPatch } from '@codedock/domain';
import { capabilitySigner, connectPluginHosts, type PluginHosts } from '@codedock/plugin-bridge';
import {
  eventually,
  freePort,
  repositoryRoot,
  startProcess,
  type TestProcess,
  temporaryFolder,
} from '@codedock/testkit';
import { startTestHostApi, type TestHostApi } from './host-api.js';

/** A plugin-host process with plugins, and this process as the caller of its gates. */
export interface PluginHostUnderTest {
  readonly hosts: PluginHosts;
  readonly process: TestProcess;
  readonly hostApi: TestHostApi;
  readonly root: string;
  /** Connects once more, with other limits. */
  connect(gateTimeoutMs: number): PluginHosts;
  /** Lines of a plugin in the host's log. */
  logged(plugin: string): readonly LogLine[];
  close(): Promise<void>;
}

/** A line of the host's log that came from a plugin. */
export interface LogLine {
  readonly level: number | string;
  readonly msg: string;
  readonly plugin?: string;
  readonly plugin_fields?: Readonly<Record<string, unknown>>;
}

/** How long starting and stopping may take on a busy machine, milliseconds. */
export const START_MS = 120_000;

/** Milliseconds of a gate: large enough for 3 MiB on a busy machine. */
const GATE_MS = 20_000;

/** The settings with which plugins of the table are installed. */
export const patient = { timeoutMs: GATE_MS };

/** Starts a plugin-host whose root `install` fills, and waits until its plugins are ready (unless `unready`). */
export async function startPluginHost(
  install: (root: string) => Promise<unknown>,
  options: { readonly unready?: boolean } = {},
): Promise<PluginHostUnderTest> {
  const folder = await temporaryFolder('cdi-');
  const root = path.join(folder.path, 'plugins');
  await mkdir(root, { mode: 0o755 });
  await install(root);
  const capabilityKey = randomBytes(32).toString('hex');
  const token = randomBytes(32).toString('hex');
  const hostApi = await startTestHostApi(capabilityKey);
  const [listen, health] = [await freePort(), await freePort()];
  const connected: PluginHosts[] = [];
  const connect = (gateTimeoutMs: number) => {
    const hosts = connectPluginHosts({
      urls: [`127.0.0.1:${listen}`],
      token,
      gateTimeoutMs,
      signCapability: capabilitySigner(capabilityKey),
    });
    connected.push(hosts);
    return hosts;
  };
  let started: TestProcess | undefined;
  const close = async () => {
    await Promise.all(connected.map((hosts) => hosts.close()));
    await started?.stop();
    await hostApi.close();
    const left = processesUnder(root);
    await folder.remove();
    if (left.length > 0) throw new Error(`plugin processes are left: ${left.join(', ')}`);
  };
  try {
    const program = path.join(repositoryRoot(), 'apps/plugin-host/dist/main.js');
    const running = await startProcess({
      command: process.execPath,
      args: ['--enable-source-maps', program],
      env: {
        CODEDOCK_PLUGIN_DIR: root,
        PLUGIN_HOST_LISTEN: `127.0.0.1:${listen}`,
        CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${health}`,
        CODEDOCK_HOST_API_URL: hostApi.address,
        CODEDOCK_INTERNAL_TOKEN: token,
        CODEDOCK_LOG_LEVEL: 'debug',
      },
      ready: `http://127.0.0.1:${health}/${options.unready ? 'healthz' : 'readyz'}`,
      readyTimeoutMs: 60_000,
      name: 'plugin-host',
    });
    started = running;
    const hosts = connect(GATE_MS);
    if (!options.unready) {
      await eventually(() => hosts.readiness().ready, { timeoutMs: 20_000, what: 'the chain to be ready' });
    }
    return {
      hosts,
      process: running,
      hostApi,
      root,
      connect,
      logged: (plugin) => logLines(running.stdout()).filter((line) => line.plugin === plugin),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** One asking of a gate in a session of its own, with what became of it. */
export function gateCall(
  scratchpad: JsonObject = {},
  options: { readonly signal?: AbortSignal; readonly withoutRun?: boolean } = {},
): { call: GateCall; records: HookRecord[]; patches: ScratchpadPatch[] } {
  const records: HookRecord[] = [];
  const patches: ScratchpadPatch[] = [];
  const run = options.withoutRun ? {} : { runId: randomUUID(), turnId: randomUUID() };
  const call: GateCall = {
    site: { tenantId: 'tenant', sessionId: randomUUID(), ...run },
    principal: { tenant: 'default', key: 'interop', agent: 'default', metadata: { ü: true } },
    signal: options.signal ?? new AbortController().signal,
    scratchpad,
    merge: (patch) => void patches.push(patch),
    record: (record) => void records.push(record),
    records,
  };
  return { call, records, patches };
}

function logLines(text: string): LogLine[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as LogLine);
}

/** Processes that run something of this folder, zombies left out. */
function processesUnder(root: string): string[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && existsSync(`/proc/${entry}/cmdline`))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
        return command.includes(root) ? [`${pid} ${command}`] : [];
      } catch {
        return [];
      }
    });
}
