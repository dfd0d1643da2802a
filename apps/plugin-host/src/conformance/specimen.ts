import { setTimeout as delay } from 'node:timers/promises';
import { defaultPluginTimeoutMs, isPort, type Port, plugin } from '@codedock/proto';
import { status } from '@grpc/grpc-js';
import pino from 'pino';
import { failure } from '../grpc/status.js';
import type { HostApi } from '../host-calls/host-api-client.js';
import type { Generation } from '../session/generation.js';
import { type HostedFolder, hostFolder } from '../workbench/hosted-folder.js';
import { memoryHostApi } from '../workbench/memory-host-api.js';

/** A line the plugin logged, or the host about it. */
export interface LogLine {
  readonly msg: string;
  readonly plugin_fields?: Readonly<Record<string, unknown>>;
}

/** How the plugin is put on the stand; times in milliseconds. */
export interface SpecimenOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly startTimeoutMs: number;
  /** In place of what plugin.json says for one question. */
  readonly timeoutMs?: number;
}

const linesKept = 20_000;
const pollMs = 20;

/** A plugin on the stand: the host's own code runs it, the checks put questions to it. */
export class Specimen {
  readonly log: LogLine[] = [];
  /** Whether the host API answers UNAVAILABLE to everything. */
  hostApiDown = false;
  private constructor(
    readonly folder: string,
    private readonly options: SpecimenOptions,
  ) {}

  private hosted: HostedFolder | undefined;
  private readonly api = memoryHostApi();

  /** Starts the plugin. @throws AppError `plugin_refused` with the host's reason. */
  static async start(folder: string, options: SpecimenOptions): Promise<Specimen> {
    const specimen = new Specimen(folder, options);
    await specimen.bringUp();
    return specimen;
  }

  /** The plugin as its host runs it. */
  get plugin(): HostedFolder {
    if (this.hosted === undefined) throw new Error('the plugin is not running');
    return this.hosted;
  }

  /** The gates it is asked at. */
  get ports(): readonly Port[] {
    return this.plugin.manifest.subscriptions.filter(isPort);
  }

  /** The variables of the tool itself. */
  get environment(): SpecimenOptions['environment'] {
    return this.options.environment;
  }

  get startTimeoutMs(): number {
    return this.options.startTimeoutMs;
  }

  /** Milliseconds for one question on a port. */
  limitMs(port: Port): number {
    const { timeoutMs, budgetMs } = this.plugin.settings;
    return this.options.timeoutMs ?? timeoutMs ?? budgetMs[port] ?? defaultPluginTimeoutMs;
  }

  /** The process, which must run now. @throws Error saying how it ended. */
  requireAlive(): Generation {
    const { generation } = this.plugin;
    if (generation?.alive) return generation;
    throw new Error(`its process has ended${generation === undefined ? '' : `: ${generation.end}`}`);
  }

  /** Starts it anew where its process has ended. @throws AppError `plugin_refused` when it does not come up. */
  async revive(): Promise<void> {
    if (this.plugin.generation?.alive !== true) await this.plugin.reload();
  }

  /** Whether a line was logged with this message and these fields. */
  hasLogged(message: string, fields: Readonly<Record<string, unknown>> = {}): boolean {
    return this.log.some(
      (line) =>
        line.msg === message && Object.entries(fields).every(([name, value]) => line.plugin_fields?.[name] === value),
    );
  }

  /** Waits for a condition. @throws Error naming what did not come about. */
  async until(condition: () => boolean, what: string, timeoutMs = 10_000): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!condition()) {
      if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
      await delay(pollMs);
    }
  }

  /** What the plugin stored under a name for a session; undefined where nothing is. */
  async remembered(sessionId: string, name: string): Promise<string | undefined> {
    const key = plugin.MemoryKey.fromPartial({ sessionId, name });
    return this.api.memoryGet({ caller: undefined, key }).then(
      ({ text }) => text,
      () => undefined,
    );
  }

  get notices(): readonly string[] {
    return this.api.notices;
  }

  /** Ends it. */
  async close(): Promise<void> {
    await this.hosted?.close();
  }

  private async bringUp(): Promise<void> {
    const logger = pino({ level: 'debug' }, { write: (line: string) => this.keep(line) });
    this.hosted = await hostFolder(this.folder, {
      log: logger,
      environment: this.options.environment,
      startTimeoutMs: this.options.startTimeoutMs,
      ...(this.options.timeoutMs === undefined ? {} : { rpcTimeoutMs: this.options.timeoutMs }),
      hostApi: this.switchable({ ...this.api, ...answersOfTheStand }),
    });
  }

  private keep(line: string): void {
    if (this.log.length < linesKept) this.log.push(JSON.parse(line) as LogLine);
  }

  private switchable(api: HostApi): HostApi {
    return new Proxy(api, {
      get: (target, name, receiver) => {
        const act: unknown = Reflect.get(target, name, receiver);
        if (!this.hostApiDown || typeof act !== 'function') return act;
        return () => Promise.reject(failure(status.UNAVAILABLE, 'the gateway cannot be reached'));
      },
    });
  }
}

/** What the directive checks expect to read back. */
const answersOfTheStand: Pick<HostApi, 'getSystemPrompt' | 'complete' | 'listModels'> = {
  getSystemPrompt: async () => ({ text: 'Sei höflich.' }),
  complete: async ({ request }) => ({ text: `${request?.prompt}: ${request?.text}` }),
  listModels: async () => ({ models: ['openai/a', 'fake'] }),
};
