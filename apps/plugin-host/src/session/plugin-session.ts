import { type Logger, metrics } from '@codedock/platform';
import { maxPayloadBytes, type plugin } from '@codedock/proto';
import type { Candidate } from '../discovery/scanner.js';
import { type Deliver, Emitter } from '../host-calls/emitter.js';
import type { HostApi } from '../host-calls/host-api-client.js';
import { hostCalls } from '../host-calls/host-calls.js';
import { ToolRegistry } from '../host-calls/tool-registry.js';
import type { Guardian } from '../process/guardian.js';
import type { PluginControl } from '../process/ndjson/host-methods.js';
import { Breaker } from './breaker.js';
import { type CallResult, Generation, type PluginIdentity } from './generation.js';
import { RestartSchedule } from './restart-schedule.js';
import { Slots } from './slots.js';

/** Milliseconds a replaced generation may take to finish its calls. */
const drainTimeoutMs = 30_000;
/** Replaced generations that may still finish their calls; a further reload waits for one of them. */
const mostRetired = 2;
/** Milliseconds calls in flight get when an administrator or the host's end stops a plugin. */
const stopDrainMs = 3_000;
/** A time-out counts against a plugin only if it had this many milliseconds, or all it was promised. */
const conclusiveTimeoutMs = 500;

/** Where a plugin is in its life. `disabled` is an administrator's lasting act, `stopped` lasts until started again. */
export type PluginState = 'starting' | 'ready' | 'draining' | 'stopped' | 'failed' | 'disabled';

/** How asking a plugin ended, with the milliseconds waited for a slot. */
export type AskResult =
  | { readonly kind: 'answered'; readonly reply: plugin.Envelope; readonly queueMs: number }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'failed'; readonly outcome: FailedOutcome; readonly reason: string; readonly queueMs: number };

/** Outcomes of a gate call that brought no answer to look at. */
export type FailedOutcome =
  | 'not asked'
  | 'timeout'
  | 'crashed'
  | 'error'
  | 'oversize'
  | 'unreachable'
  | 'invalid'
  | 'not ready';

/** How executing a tool ended. */
export interface ToolResult {
  readonly outcome: 'answered' | 'not_sent' | 'died' | 'timeout' | 'cancelled';
  readonly result: plugin.MethodResult;
  readonly generation: number;
}

/** What every plugin of one host shares. */
export interface SessionContext {
  readonly guardian: Guardian;
  readonly log: Logger;
  readonly startTimeoutMs: number;
  readonly hostEnvironment: Readonly<Record<string, string | undefined>>;
  readonly api: HostApi;
  readonly deliver: Deliver;
  readonly control: PluginControl;
  /** The plugin earlier in chain order that owns a tool name. */
  toolHolder(name: string, asking: string): string | undefined;
  /** Called after anything a snapshot shows has changed. */
  onChange(): void;
  /** Called for what belongs into the audit. */
  onRecord(plugin: string, kind: string, message: string): void;
}

/** One plugin through all its processes: starts, restarts, reloads and stops them, and routes calls to the current one. */
export class PluginSession {
  state: PluginState = 'stopped';
  /** Why it is not ready; empty when it is. */
  reason = 'not started yet';
  everReady = false;
  /** Its process has ended and is not started again by itself. */
  gaveUp = false;
  restarts = 0;
  private current: Generation | undefined;
  private lastIdentity: PluginIdentity;
  private lastManifest: plugin.Manifest | undefined;
  private generations = 0;
  private wanted = false;
  private restartTimer: NodeJS.Timeout | undefined;
  private startAbort = new AbortController();
  private order: Promise<unknown> = Promise.resolve();
  private readonly retired = new Set<Promise<void>>();
  /** False: the process itself has said that it is not to be started again. */
  private autoRestart = true;
  private readonly breaker = new Breaker();
  private readonly schedule: RestartSchedule;
  private readonly gateSlots: Slots;
  private readonly toolSlots: Slots;
  private readonly emitter: Emitter;
  private readonly log: Logger;

  constructor(
    private candidate: Candidate,
    private readonly context: SessionContext,
  ) {
    this.log = context.log.child({ plugin: candidate.name });
    const { maxInflight, maxToolCalls, restart } = candidate.settings;
    this.gateSlots = new Slots(maxInflight);
    this.toolSlots = new Slots(maxToolCalls);
    this.schedule = new RestartSchedule(restart);
    this.emitter = new Emitter(candidate.name, context.deliver);
    // What is counted from nothing has no increase that an alert could see.
    metrics.pluginRestarts.add(0, { plugin: candidate.name });
    this.lastIdentity = {
      version: '',
      policyVersion: '',
      checksum: '',
      configDigest: candidate.configDigest,
      generation: 0,
    };
  }

  get name(): string {
    return this.candidate.name;
  }

  get settings(): Candidate['settings'] {
    return this.candidate.settings;
  }

  /** Whether it only watches. */
  get shadow(): boolean {
    return this.candidate.settings.mode === 'shadow';
  }

  /** The manifest of the current generation, or of the last one that was ready. */
  get manifest(): plugin.Manifest | undefined {
    return this.lastManifest;
  }

  get identity(): PluginIdentity {
    return this.lastIdentity;
  }

  get pid(): number {
    return this.current?.pid ?? 0;
  }

  get live(): boolean {
    return this.current?.alive === true;
  }

  /** The process that is asked now. */
  get generation(): Generation | undefined {
    return this.current;
  }

  /** Bytes of the largest payload it takes. */
  get maxPayloadBytes(): number {
    return this.lastManifest?.maxPayloadBytes || maxPayloadBytes;
  }

  /** Tools of the current generation, or of the last one that was ready. */
  tools: ToolRegistry = new ToolRegistry(() => undefined);

  /** Starts it unless it runs; resolves when the first attempt has ended. */
  start(): Promise<void> {
    this.wanted = true;
    this.schedule.reset();
    clearTimeout(this.restartTimer);
    return this.inOrder(() => this.bringUp());
  }

  /** Takes it out, as stopped or disabled; calls in flight get 3 s to finish. Resolves when no process is left. */
  stop(state: 'stopped' | 'disabled', reason: string): Promise<void> {
    this.wanted = false;
    clearTimeout(this.restartTimer);
    this.startAbort.abort();
    return this.inOrder(async () => {
      const generation = this.current;
      if (generation !== undefined) {
        this.change('draining', reason);
        await generation.drain(stopDrainMs);
        this.current = undefined;
        await generation.stop();
        this.context.onRecord(this.name, 'stopped', reason);
      }
      await Promise.all(this.retired);
      this.change(state, reason);
    });
  }

  /**
   * Starts a new generation beside the current one and switches when it is ready; calls in flight finish on the old
   * one. @throws AppError `plugin_refused` when the new one does not come up: the old one stays.
   */
  reload(candidate: Candidate): Promise<void> {
    this.wanted = true;
    this.schedule.reset();
    clearTimeout(this.restartTimer);
    return this.inOrder(async () => {
      // Or every reload of a plugin whose calls hang would leave one more process.
      while (this.retired.size >= mostRetired) await Promise.race(this.retired);
      const previous = this.current;
      if (previous === undefined) {
        this.candidate = candidate;
        this.change('starting', 'starting');
      }
      try {
        this.adopt(await this.startGeneration(candidate), candidate);
      } catch (error) {
        if (previous === undefined) this.fail((error as Error).message, 0);
        throw error;
      }
      if (previous !== undefined) this.retire(previous);
    });
  }

  /**
   * Asks a gate; `timeoutMs` includes waiting for a slot, `promisedMs` is what the plugin may expect at best. The signal
   * ends the wait and cancels the question in the plugin.
   */
  async ask(
    envelope: plugin.Envelope,
    timeoutMs: number,
    promisedMs: number,
    signal?: AbortSignal,
  ): Promise<AskResult> {
    const generation = this.current;
    if (generation === undefined || !generation.alive)
      return { kind: 'failed', outcome: 'not ready', reason: this.reason || 'its process is ending', queueMs: 0 };
    const refusal = this.breaker.refusal();
    if (refusal !== undefined) return { kind: 'failed', outcome: 'not ready', reason: refusal, queueMs: 0 };
    let queueMs = 0;
    if (!this.gateSlots.tryTake()) {
      if (this.shadow) {
        this.breaker.inconclusive();
        return { kind: 'failed', outcome: 'not asked', reason: 'all its slots were taken', queueMs: 0 };
      }
      const waitingSince = performance.now();
      const granted = await this.gateSlots.take(timeoutMs, signal);
      queueMs = performance.now() - waitingSince;
      if (signal?.aborted) {
        if (granted) this.gateSlots.release();
        this.breaker.inconclusive();
        return { kind: 'cancelled' };
      }
      if (!granted || queueMs >= timeoutMs) {
        if (granted) this.gateSlots.release();
        this.breaker.inconclusive();
        return {
          kind: 'failed',
          outcome: 'timeout',
          reason: `all ${this.gateSlots.size} slots of the plugin were taken for ${Math.round(queueMs)} ms`,
          queueMs,
        };
      }
    }
    try {
      // Its process may have ended while a slot was waited for.
      if (!generation.alive) {
        this.breaker.inconclusive();
        return { kind: 'failed', outcome: 'not ready', reason: this.reason || 'its process is ending', queueMs };
      }
      const givenMs = timeoutMs - queueMs;
      const result = await generation.onEvent(envelope, givenMs, { signal });
      this.judge(result, givenMs, promisedMs);
      if (result.kind === 'answered') return { kind: 'answered', reply: result.reply, queueMs };
      if (result.outcome === 'cancelled') return { kind: 'cancelled' };
      return { kind: 'failed', outcome: result.outcome, reason: result.reason, queueMs };
    } finally {
      this.gateSlots.release();
    }
  }

  /** Delivers an event; what comes of it interests nobody. */
  async notify(envelope: plugin.Envelope, timeoutMs: number, emitDepth: number): Promise<void> {
    const generation = this.current;
    if (generation?.alive !== true) return;
    const result = await generation.onEvent(envelope, timeoutMs, { emitDepth });
    if (result.kind === 'failed')
      this.log.debug(
        { event: envelope.type, outcome: result.outcome, reason: result.reason },
        'a plugin failed on an event',
      );
  }

  /** Delivers an event that counts as delivered once the plugin has handled it. Answers why it has not; empty when it has. */
  async deliver(envelope: plugin.Envelope, timeoutMs: number): Promise<string> {
    const generation = this.current;
    if (generation?.alive !== true) return `the plugin is not ready: ${this.reason || 'its process is ending'}`;
    const result = await generation.deliver(envelope, timeoutMs);
    return result.kind === 'answered' ? '' : `${envelope.type}: ${result.outcome}: ${result.reason}`;
  }

  /** Executes a tool within `timeoutMs`, waiting for a slot included. */
  async executeTool(input: plugin.MethodInput, timeoutMs: number, signal: AbortSignal): Promise<ToolResult> {
    const generation = this.current;
    if (generation?.alive !== true)
      return this.toolFailure('not_sent', `plugin ${this.name} is not ready: ${this.reason}`);
    const waitingSince = performance.now();
    if (!(await this.toolSlots.take(timeoutMs, signal))) {
      return this.toolFailure(
        'not_sent',
        `all ${this.toolSlots.size} tool slots of plugin ${this.name} were taken until the call was given up`,
      );
    }
    try {
      const left = timeoutMs - (performance.now() - waitingSince);
      if (left < 1 || signal.aborted || !generation.alive)
        return this.toolFailure('not_sent', `plugin ${this.name} was not asked in time`);
      const result = await generation.executeMethod(input, left, signal);
      if (result.kind === 'answered')
        return { outcome: 'answered', result: result.reply, generation: generation.number };
      if (result.unsent) return this.toolFailure('not_sent', result.reason);
      if (result.outcome === 'timeout' || result.outcome === 'cancelled')
        return this.toolFailure(result.outcome, result.reason, generation);
      if (result.outcome === 'crashed' || result.outcome === 'unreachable')
        return this.toolFailure('died', result.reason, generation);
      return this.toolFailure('answered', result.reason, generation);
    } finally {
      this.toolSlots.release();
    }
  }

  private toolFailure(outcome: ToolResult['outcome'], error: string, generation?: Generation): ToolResult {
    return {
      outcome,
      result: { success: false, output: Buffer.alloc(0), error },
      generation: generation?.number ?? this.lastIdentity.generation,
    };
  }

  private judge(result: CallResult<plugin.Envelope>, givenMs: number, promisedMs: number): void {
    if (result.kind === 'answered' || result.outcome === 'error' || result.outcome === 'invalid')
      this.breaker.answered();
    else if (result.outcome === 'timeout' && givenMs >= Math.min(promisedMs, conclusiveTimeoutMs))
      this.breaker.timedOut();
    else this.breaker.inconclusive();
  }

  private async bringUp(): Promise<void> {
    if (!this.wanted || this.current !== undefined) return;
    this.change('starting', 'starting');
    try {
      this.adopt(await this.startGeneration(this.candidate), this.candidate);
    } catch (error) {
      this.fail((error as Error).message, 0);
    }
  }

  private async startGeneration(candidate: Candidate): Promise<Generation> {
    this.schedule.started();
    if (this.generations > 0) {
      this.restarts++;
    }
    this.startAbort = new AbortController();
    this.autoRestart = true;
    const shadow = candidate.settings.mode === 'shadow';
    const tools = new ToolRegistry((name) => (shadow ? undefined : this.context.toolHolder(name, this.name)));
    const generation = await Generation.start({
      candidate,
      number: ++this.generations,
      startTimeoutMs: this.context.startTimeoutMs,
      hostEnvironment: this.context.hostEnvironment,
      guardian: this.context.guardian,
      log: this.log,
      signal: this.startAbort.signal,
      tools,
      control: this.context.control,
      onManifest: (changed) => {
        if (this.current !== changed) return;
        this.lastManifest = changed.manifest;
        this.context.onChange();
      },
      setAutoRestart: (enabled) => {
        this.autoRestart = enabled;
      },
      hostCalls: (starting) =>
        hostCalls({
          plugin: this.name,
          shadow,
          calls: starting.calls,
          tools,
          emitter: this.emitter,
          api: this.context.api,
          log: this.log,
          capabilities: () => starting.manifest.capabilities,
          tenants: tenantsOf(candidate.settings.matchJson),
          onToolsChanged: () => {
            if (this.tools === tools) this.context.onChange();
          },
        }),
    });
    return generation;
  }

  private adopt(generation: Generation, candidate: Candidate): void {
    const { maxInflight, maxToolCalls, restart } = candidate.settings;
    this.candidate = candidate;
    this.gateSlots.resize(maxInflight);
    this.toolSlots.resize(maxToolCalls);
    this.schedule.settings = restart;
    this.current = generation;
    this.lastIdentity = generation.identity;
    this.lastManifest = generation.manifest;
    this.tools = generation.tools;
    this.everReady = true;
    this.breaker.answered();
    void generation.exited.then(() => this.onExit(generation));
    const { version } = generation.identity;
    this.log.info(
      { pid: generation.pid, generation: generation.number, version, subscriptions: generation.manifest.subscriptions },
      'plugin ready',
    );
    this.context.onRecord(this.name, 'ready', `generation ${generation.number}, version ${version}`);
    this.change('ready', '');
  }

  private retire(generation: Generation): void {
    this.track(generation.drain(drainTimeoutMs).then(() => generation.stop()));
  }

  private track(end: Promise<void>): void {
    this.retired.add(end);
    void end.finally(() => this.retired.delete(end));
  }

  private onExit(generation: Generation): void {
    if (this.current !== generation) return;
    this.current = undefined;
    this.context.onRecord(this.name, 'crashed', generation.end.slice(0, 1024));
    this.track(generation.stop());
    this.fail(
      `its process ended by itself: ${generation.end}`,
      performance.now() - generation.readyAt,
      generation.endedQuietly,
    );
  }

  private fail(why: string, readyForMs: number, quietly = false): void {
    const restarts = this.autoRestart && this.schedule.restarts(quietly);
    const reason = restarts
      ? why
      : `${why}; it is not started again ("restart.policy" is "${this.schedule.settings.policy}"): start it with codedock plugins start ${this.name}`;
    this.schedule.ended(readyForMs);
    this.gaveUp = !restarts;
    this.change('failed', reason);
    this.log.error({ reason }, 'plugin failed');
    if (readyForMs === 0) this.context.onRecord(this.name, 'failed', reason.slice(0, 1024));
    if (!this.wanted || !restarts) return;
    const delayMs = this.schedule.delayMs();
    this.log.info({ delay_ms: delayMs }, 'plugin will be started again');
    this.restartTimer = setTimeout(() => {
      metrics.pluginRestarts.add(1, { plugin: this.name });
      void this.inOrder(() => this.bringUp());
    }, delayMs);
  }

  private change(state: PluginState, reason: string): void {
    if (state !== 'failed') this.gaveUp = false;
    this.state = state;
    this.reason = reason;
    metrics.pluginReady.set(READINESS[state], { plugin: this.name });
    this.context.onChange();
  }

  /** Starts, stops and reloads of one plugin happen one after the other. */
  private inOrder<T>(act: () => Promise<T>): Promise<T> {
    const result = this.order.then(act);
    this.order = result.catch(() => undefined);
    return result;
  }
}

/** What the metric says of a state: -1 where somebody has taken the plugin out on purpose. */
const READINESS: Readonly<Record<PluginState, number>> = {
  starting: 0,
  ready: 1,
  failed: 0,
  draining: -1,
  stopped: -1,
  disabled: -1,
};

/** Globs of the tenants a plugin.json's `match` names; none = all. */
function tenantsOf(matchJson: string): readonly string[] {
  if (matchJson === '') return [];
  const { tenants = [] } = JSON.parse(matchJson) as { readonly tenants?: readonly string[] };
  return tenants;
}
