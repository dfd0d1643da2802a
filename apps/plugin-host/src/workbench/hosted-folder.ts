import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import type { gate, Port, plugin } from '@codedock/proto';
import type { PluginSettings } from '../discovery/manifest-file.js';
import { scanFolder } from '../discovery/scanner.js';
import { runGateChain } from '../dispatch/gate-chain.js';
import type { HostApi } from '../host-calls/host-api-client.js';
import type { Tool } from '../host-calls/tool-registry.js';
import { Guardian } from '../process/guardian.js';
import type { Generation } from '../session/generation.js';
import type { AskResult, PluginSession, ToolResult } from '../session/plugin-session.js';
import { PluginSet } from '../session/plugin-set.js';
import { type HostApiEffects, memoryHostApi } from './memory-host-api.js';

/** How the plugin of a folder is hosted; times in milliseconds. */
export interface HostingOptions {
  readonly log: Logger;
  /** Variables of which plugin.json's `env` may name some; PATH is needed. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** For handshake, health and Bootstrap; default 10,000. */
  readonly startTimeoutMs?: number;
  /** What the plugin gets for one question where its plugin.json says nothing; default 2,000. */
  readonly rpcTimeoutMs?: number;
  /** Takes the call-backs in place of the API in memory, whose effects stay empty then. */
  readonly hostApi?: HostApi;
}

/** A plugin that runs outside of a service, by the code that runs it in the service. */
export interface HostedFolder {
  readonly name: string;
  readonly transport: 'grpc' | 'stdio';
  readonly settings: PluginSettings;
  /** Program and arguments, run in the folder. */
  readonly command: readonly [string, ...string[]];
  /** What it asked of its host: an API in memory, which takes any call-back made while a question is open. */
  readonly hostApi: HostApiEffects;
  readonly manifest: plugin.Manifest;
  readonly tools: readonly Tool[];
  readonly pid: number;
  /** The process that is asked now; undefined while there is none. */
  readonly generation: Generation | undefined;
  /**
   * Asks a gate as the service does: match, time-outs, checks of the answer and failure policy included. `budgetMs` is
   * the gate's as its caller counts it; default that of plugin.json, else 2,000.
   */
  gate(port: Port, envelope: plugin.Envelope, options?: GateOptions): Promise<gate.GateAnswer>;
  /** Asks once and answers what came back, unjudged. */
  ask(envelope: plugin.Envelope, timeoutMs: number, signal?: AbortSignal): Promise<AskResult>;
  /** Hands it a ledger event. */
  notify(envelope: plugin.Envelope, timeoutMs: number): Promise<void>;
  executeTool(input: plugin.MethodInput, timeoutMs: number, signal?: AbortSignal): Promise<ToolResult>;
  /** Reads the folder anew and replaces the process. @throws AppError `plugin_refused` with the host's reason. */
  reload(): Promise<void>;
  /** Ends the plugin and everything it started. */
  close(): Promise<void>;
}

/** How a gate is asked. */
export interface GateOptions {
  readonly budgetMs?: number;
  /** The tool the gate is about, for `match`. */
  readonly toolName?: string;
  readonly signal?: AbortSignal;
}

const startTimeoutMs = 10_000;
const rpcTimeoutMs = 2_000;
/** Call-backs are made in the name of a call; outside of a service any text gives one. */
const localCapability = Buffer.from('local');
const neverAborted = new AbortController().signal;

/**
 * Starts the plugin of one folder, whose name is the plugin's, and resolves when it answers. Neighbours of the folder are
 * not looked at. @throws AppError `plugin_refused` with the reason a plugin-host gives; nothing is left then.
 */
export async function hostFolder(folder: string, options: HostingOptions): Promise<HostedFolder> {
  const found = await scanFolder(folder);
  if (found.kind === 'refusal')
    throw new AppError('plugin_refused', `plugin ${found.name} is refused: ${found.reason}`);
  const { name, settings } = found;
  const guardian = new Guardian(options.log);
  const hostApi = memoryHostApi();
  const limits = { rpcTimeoutMs: options.rpcTimeoutMs ?? rpcTimeoutMs, gateTimeoutMs: rpcTimeoutMs };
  const set = new PluginSet({
    guardian,
    log: options.log,
    startTimeoutMs: options.startTimeoutMs ?? startTimeoutMs,
    hostEnvironment: options.environment,
    api: options.hostApi ?? hostApi,
    limits,
    scan: async () => ({ plugins: [await scanFolder(folder)], skipped: [] }),
    onRecord: () => undefined,
  });
  const close = async () => {
    await set.stopAll('the host ends');
    await guardian.close();
  };
  try {
    await set.discover();
    await set.start(name);
    requireReady(sessionOf(set, name));
  } catch (error) {
    await close();
    throw error;
  }
  const session = () => sessionOf(set, name);
  return {
    name,
    transport: settings.transport,
    settings,
    command: found.command,
    hostApi,
    get manifest() {
      return manifestOf(session());
    },
    get tools() {
      return session().tools.list();
    },
    get pid() {
      return session().pid;
    },
    get generation() {
      return session().generation;
    },
    gate(port, envelope, { budgetMs, toolName, signal } = {}) {
      const { endpoints, missing, budgets } = set.table;
      const question = {
        port,
        envelope: authorized(envelope),
        budgetMs: budgetMs ?? budgets.get(port) ?? limits.gateTimeoutMs,
        chainEpoch: 0,
        ...(toolName === undefined ? {} : { toolName }),
        signal,
      };
      return runGateChain(question, endpoints.get(port) ?? [], missing);
    },
    ask: (envelope, timeoutMs, signal) => session().ask(authorized(envelope), timeoutMs, timeoutMs, signal),
    notify: (envelope, timeoutMs) => session().notify(authorized(envelope), timeoutMs, 0),
    executeTool: (input, timeoutMs, signal = neverAborted) =>
      session().executeTool({ ...input, capability: localCapability }, timeoutMs, signal),
    reload: () => set.reload(name),
    close,
  };
}

function authorized(envelope: plugin.Envelope): plugin.Envelope {
  return { ...envelope, capability: localCapability };
}

function sessionOf(set: PluginSet, name: string): PluginSession {
  const entry = set.find(name);
  if (entry.kind === 'refused')
    throw new AppError('plugin_refused', `plugin ${name} is refused: ${entry.refusal.reason}`);
  return entry.session;
}

function requireReady(session: PluginSession): void {
  if (session.state === 'ready') return;
  throw new AppError('plugin_refused', `plugin ${session.name} did not come up: ${session.reason}`);
}

function manifestOf({ name, manifest }: PluginSession): plugin.Manifest {
  if (manifest === undefined) throw new AppError('invariant_broken', `plugin ${name} has no manifest`);
  return manifest;
}
