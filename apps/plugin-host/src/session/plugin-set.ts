import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { compileMatch, type Match, portSpec, strictest } from '@codedock/plugin-bridge';
import { isPort, type Port } from '@codedock/proto';
import { deliverableEvents } from '../delivery/deliverable-events.js';
import type { DeliveryTarget } from '../delivery/durable-delivery.js';
import type { Candidate, Refusal, ScanResult } from '../discovery/scanner.js';
import type { GateEndpoint, MissingPlugin } from '../dispatch/gate-endpoint.js';
import { matchSubjectOf } from '../dispatch/match-subject.js';
import { NotificationQueue } from '../dispatch/notification-queue.js';
import type { Deliver } from '../host-calls/emitter.js';
import type { Tool } from '../host-calls/tool-registry.js';
import type { PluginControl } from '../process/ndjson/host-methods.js';
import type { Recorder } from '../recording/recorder.js';
import { PluginSession, type SessionContext } from './plugin-session.js';

/** A plugin that is in the set, in chain order. */
export type Entry =
  | {
      readonly kind: 'session';
      readonly name: string;
      readonly session: PluginSession;
      readonly queue: NotificationQueue;
    }
  | { readonly kind: 'refused'; readonly name: string; readonly refusal: Refusal };

/** A tool, and the plugin that executes it. */
export interface ToolOwner {
  readonly session: PluginSession;
  readonly tool: Tool;
  /** Absent = offered to everyone. */
  readonly matches: Match | undefined;
}

/** A plugin that gets an event. */
export interface EventSubscriber {
  readonly name: string;
  readonly queue: NotificationQueue;
  /** Absent = it gets the event whoever it is about. */
  readonly matches: Match | undefined;
}

/** Who is to be asked for what, made anew on every change. */
export interface DispatchTable {
  readonly endpoints: ReadonlyMap<Port, readonly GateEndpoint[]>;
  readonly missing: readonly MissingPlugin[];
  /** Milliseconds, for ports with subscribers. */
  readonly budgets: ReadonlyMap<Port, number>;
  readonly tools: ReadonlyMap<string, ToolOwner>;
  readonly events: ReadonlyMap<string, readonly EventSubscriber[]>;
}

/** Settings of dispatching, in milliseconds. */
export interface DispatchLimits {
  readonly rpcTimeoutMs: number;
  readonly gateTimeoutMs: number;
}

/** What the set needs to make sessions, beside what it provides itself. */
export type SetContext = Omit<SessionContext, 'deliver' | 'toolHolder' | 'onChange' | 'control'> & {
  readonly limits: DispatchLimits;
  /** Shown every question and event; absent where nobody can record. */
  readonly recorder?: Recorder;
  scan(): Promise<ScanResult>;
};

/** All plugins of this host in chain order, and what follows from their states. */
export class PluginSet {
  private entries: Entry[] = [];
  private disabled: ReadonlySet<string> = new Set();
  private readonly joining = new Map<string, Promise<void>>();
  private cached: DispatchTable | undefined;
  private readonly listeners = new Set<() => void>();
  private readonly log: Logger;

  constructor(private readonly context: SetContext) {
    this.log = context.log;
  }

  /** Reads the plugin folders and fills the set; nothing is started yet. */
  async discover(): Promise<void> {
    const { plugins, skipped } = await this.context.scan();
    for (const line of skipped) this.log.info(line);
    this.entries = plugins.map((found) => this.entryOf(found));
    for (const entry of this.entries) {
      if (entry.kind === 'refused')
        this.log.error({ plugin: entry.name, reason: entry.refusal.reason }, 'plugin refused');
    }
    this.changed();
  }

  /** Makes the disabled set what the administrators want; everything else that was not stopped by hand is started. */
  async applyDisabled(names: ReadonlySet<string>): Promise<void> {
    const before = this.disabled;
    this.disabled = names;
    this.changed();
    await Promise.all(
      this.sessions().map(({ session }) => {
        if (names.has(session.name))
          return session.state === 'disabled' ? undefined : session.stop('disabled', 'disabled by an administrator');
        const isNew = session.state === 'stopped' && session.reason === 'not started yet';
        return isNew || before.has(session.name) ? session.start() : undefined;
      }),
    );
  }

  list(): readonly Entry[] {
    return this.entries;
  }

  /** @throws AppError `plugin_not_found`. */
  find(name: string): Entry {
    const entry = this.entries.find((candidate) => candidate.name === name);
    if (entry === undefined)
      throw new AppError(
        'plugin_not_found',
        `there is no plugin "${name}" on this host; codedock plugins list shows them`,
      );
    return entry;
  }

  /** Starts a plugin that was stopped. @throws AppError where it is refused or disabled. */
  async start(name: string): Promise<void> {
    await this.sessionOf(name).start();
  }

  /** Stops a plugin until it is started again or the host restarts. */
  async stop(name: string, reason = 'stopped by an administrator'): Promise<void> {
    const entry = this.find(name);
    if (entry.kind === 'refused')
      throw new AppError('plugin_refused', `plugin ${name} was refused: ${entry.refusal.reason}`);
    await entry.session.stop('stopped', reason);
    entry.queue.clear();
  }

  /**
   * Reads the plugin's folder again and replaces its process without failing a call. A plugin whose folder was added since
   * is taken in at its place in the chain, once it answers. @throws AppError where that fails: all is as before then.
   */
  async reload(name: string): Promise<void> {
    const known = this.entries.find((entry) => entry.name === name);
    const { plugins } = await this.context.scan();
    const found = plugins.find((candidate) => candidate.name === name);
    if (found === undefined) {
      this.find(name);
      throw new AppError('plugin_not_found', `the folder of plugin ${name} is gone; stop the plugin instead`);
    }
    if (found.kind === 'refusal') throw new AppError('plugin_refused', `plugin ${name} is refused: ${found.reason}`);
    if (this.disabled.has(name)) throw new AppError('plugin_refused', `plugin ${name} is disabled; enable it first`);
    if (known?.kind === 'session') return known.session.reload(found);
    if (known === undefined) return this.join(found, plugins);
    const replacement = this.entryOf(found);
    this.entries[this.entries.indexOf(known)] = replacement;
    if (replacement.kind === 'session') await replacement.session.start();
  }

  /** Takes a plugin in, once it answers: until then nobody waits for it, and no gate misses it. */
  private join(found: Candidate, order: ScanResult['plugins']): Promise<void> {
    const joining = this.joining.get(found.name) ?? this.bringIn(found, order);
    this.joining.set(found.name, joining);
    return joining.finally(() => this.joining.delete(found.name));
  }

  private async bringIn(found: Candidate, order: ScanResult['plugins']): Promise<void> {
    const entry = this.entryOf(found);
    if (entry.kind !== 'session') return;
    const { session } = entry;
    await session.start();
    if (session.state !== 'ready') {
      const { reason } = session;
      await session.stop('stopped', reason);
      throw new AppError('plugin_refused', `plugin ${found.name} did not come up: ${reason}`);
    }
    if (this.disabled.has(found.name)) await session.stop('disabled', 'disabled by an administrator');
    const later = new Set(order.slice(order.indexOf(found) + 1).map(({ name }) => name));
    const at = this.entries.findIndex(({ name }) => later.has(name));
    this.entries.splice(at < 0 ? this.entries.length : at, 0, entry);
    this.changed();
  }

  /** Ends every plugin. */
  async stopAll(reason: string): Promise<void> {
    await Promise.all(this.sessions().map(({ session }) => session.stop('stopped', reason)));
  }

  /** Calls the listener after every change, until the function it answers is called. */
  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  get table(): DispatchTable {
    this.cached ??= this.buildTable();
    return this.cached;
  }

  /** Queues an event for everyone who subscribes to it, but for one. */
  readonly deliver: Deliver = (event, except, emitDepth) => {
    for (const { name, queue, matches } of this.table.events.get(event.type) ?? []) {
      if (name !== except && (matches === undefined || matches(matchSubjectOf(event.principal, ''))))
        queue.add(event, emitDepth);
    }
  };

  /** Plugins that take events with durable delivery now. */
  deliveryTargets(): readonly DeliveryTarget[] {
    return this.sessions().flatMap(({ name, session }) => {
      const { delivery, timeoutMs, matchJson } = session.settings;
      if (delivery !== 'durable' || session.state !== 'ready' || this.disabled.has(name)) return [];
      const events = deliverableEvents(session.manifest?.subscriptions ?? []);
      if (events.length === 0) return [];
      return {
        name,
        events,
        matches: compileMatch(matchJson),
        timeoutMs: timeoutMs ?? this.context.limits.rpcTimeoutMs,
        deliver: (envelope, limitMs) => {
          this.context.recorder?.told(name, envelope);
          return session.deliver(envelope, limitMs);
        },
      };
    });
  }

  /** What a plugin with the capability `admin` may do. */
  private readonly control: PluginControl = {
    list: () =>
      this.sessions().map(({ name, session }) => ({
        name,
        state: session.state,
        version: session.identity.version,
      })),
    isDisabled: (name) => this.disabled.has(this.find(name).name),
    isStopped: (name) => {
      const entry = this.find(name);
      return entry.kind === 'session' && entry.session.state === 'stopped';
    },
    reload: async (name, by) => {
      this.log.info({ plugin: name, by }, 'a plugin reloads a plugin');
      await this.reload(name);
    },
    stop: async (name, by) => {
      this.log.info({ plugin: name, by }, 'a plugin stops a plugin');
      await this.stop(name, `stopped by plugin ${by}`);
    },
    start: async (name, by) => {
      this.log.info({ plugin: name, by }, 'a plugin starts a plugin');
      await this.start(name);
    },
  };

  private sessions(): Extract<Entry, { kind: 'session' }>[] {
    return this.entries.filter((entry) => entry.kind === 'session');
  }

  private sessionOf(name: string): PluginSession {
    const entry = this.find(name);
    if (entry.kind === 'refused')
      throw new AppError('plugin_refused', `plugin ${name} is refused: ${entry.refusal.reason}`);
    if (this.disabled.has(name)) throw new AppError('plugin_refused', `plugin ${name} is disabled; enable it first`);
    return entry.session;
  }

  private entryOf(found: Candidate | Refusal): Entry {
    if (found.kind === 'refusal') return { kind: 'refused', name: found.name, refusal: found };
    const session = new PluginSession(found, {
      ...this.context,
      deliver: this.deliver,
      control: this.control,
      toolHolder: (tool, asking) => this.toolHolder(tool, asking),
      onChange: () => this.changed(),
    });
    const queue = new NotificationQueue((envelope, emitDepth) => {
      this.context.recorder?.told(found.name, envelope);
      return session.notify(envelope, this.context.limits.rpcTimeoutMs, emitDepth);
    });
    return { kind: 'session', name: found.name, session, queue };
  }

  private toolHolder(tool: string, asking: string): string | undefined {
    for (const { name, session } of this.sessions()) {
      if (name === asking) return undefined;
      if (!session.shadow && takesPart(session) && session.tools.get(tool) !== undefined) return name;
    }
    return undefined;
  }

  private changed(): void {
    this.cached = undefined;
    for (const listener of this.listeners) listener();
  }

  private buildTable(): DispatchTable {
    const endpoints = new Map<Port, GateEndpoint[]>();
    const budgets = new Map<Port, number>();
    const tools = new Map<string, ToolOwner>();
    const events = new Map<string, EventSubscriber[]>();
    for (const entry of this.sessions()) {
      const { name, queue, session } = entry;
      // Out at once, not when its process has ended: the first snapshot of a new epoch must show the chain of that epoch.
      if (this.disabled.has(entry.name) || !takesPart(session)) continue;
      const matches = compileMatch(session.settings.matchJson);
      const subscriptions = session.manifest?.subscriptions ?? [];
      const durable = new Set(session.settings.delivery === 'durable' ? deliverableEvents(subscriptions) : []);
      for (const subscription of subscriptions) {
        // It is given these from the ledger.
        if (durable.has(subscription)) continue;
        if (!isPort(subscription))
          events.set(subscription, [...(events.get(subscription) ?? []), { name, queue, matches }]);
        else {
          endpoints.set(subscription, [
            ...(endpoints.get(subscription) ?? []),
            endpointOf(session, subscription, matches, this.context),
          ]);
          if (session.shadow) continue;
          const declared = session.settings.budgetMs[subscription] ?? 0;
          budgets.set(subscription, Math.max(budgets.get(subscription) ?? this.context.limits.gateTimeoutMs, declared));
        }
      }
      // Tools of a plugin that only watches would be one of its effects; one that is gone for good executes none.
      for (const tool of session.shadow || session.gaveUp ? [] : session.tools.list()) {
        if (!tools.has(tool.name)) tools.set(tool.name, { session, tool, matches });
      }
    }
    return { endpoints, budgets, tools, events, missing: this.missing() };
  }

  private missing(): MissingPlugin[] {
    const missing: MissingPlugin[] = [];
    for (const entry of this.entries) {
      if (this.disabled.has(entry.name)) continue;
      if (entry.kind === 'refused') {
        if (entry.refusal.required) missing.push(missingOf(entry.name, entry.refusal));
      } else if (entry.session.settings.required && !entry.session.everReady && !wasTakenOut(entry.session)) {
        const { reason, settings } = entry.session;
        missing.push(missingOf(entry.name, { reason, matchJson: settings.matchJson }));
      }
    }
    return missing;
  }
}

function missingOf(plugin: string, { reason, matchJson }: { reason: string; matchJson: string }): MissingPlugin {
  return { plugin, reason, matchJson, matches: compileMatch(matchJson) };
}

/** Taken out by an administrator, not merely not there. */
function wasTakenOut(session: PluginSession): boolean {
  return (
    session.state === 'disabled' ||
    session.state === 'draining' ||
    (session.state === 'stopped' && session.reason !== 'not started yet')
  );
}

function takesPart(session: PluginSession): boolean {
  return session.manifest !== undefined && !wasTakenOut(session);
}

function endpointOf(
  session: PluginSession,
  port: Port,
  matches: Match | undefined,
  { limits, recorder }: SetContext,
): GateEndpoint {
  const manifestPolicy = session.manifest?.portFailurePolicy[port];
  return {
    plugin: session.name,
    failurePolicy: strictest(
      portSpec(port).failureDefault,
      session.settings.failurePolicy[port],
      manifestPolicy === 'closed' ? 'closed' : undefined,
    ),
    matches,
    shadow: session.shadow,
    reinvoke: session.settings.reinvoke === 'ifChanged',
    timeoutMs: session.settings.timeoutMs ?? session.settings.budgetMs[port] ?? limits.rpcTimeoutMs,
    maxPayloadBytes: session.maxPayloadBytes,
    get identity() {
      return session.identity;
    },
    ask(envelope, timeoutMs, promisedMs, signal) {
      const asking = session.ask(envelope, timeoutMs, promisedMs, signal);
      recorder?.asked(session.name, envelope, asking);
      return asking;
    },
  };
}
