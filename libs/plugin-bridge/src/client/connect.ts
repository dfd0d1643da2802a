import type { LedgerEventType, Principal, ToolDefinition, ToolExecution, ToolInvocation } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { defaultGateBudgetMs, type Port, ports } from '@codedock/proto';
import type { MatchSubject } from '../ports/match.js';
import { type FailurePolicy, portSpec, strictest } from '../ports/port-table.js';
import { parseAddress, resolveHost } from './addresses.js';
import type { ChainDifference } from './chain-differences.js';
import { ChainMemory } from './chain-memory.js';
import { holds, sha256, type ViewSubscriber } from './chain-view.js';
import { GateAsker } from './gate-asker.js';
import { type EventNotice, NotificationQueue } from './notification-queue.js';
import type { PluginHostsOptions } from './options.js';
import { type PluginAdmin, pluginAdmin } from './plugin-admin.js';
import { remoteHooks } from './remote-hooks.js';
import { ReplicaSet } from './replica-set.js';
import type { PortState, Standing } from './standing.js';
import { systemClock } from './system-clock.js';
import { ToolExecutor } from './tool-executor.js';

/** Whether plugins can be asked. A gateway ignores it for its own readiness; a runner takes no runs while it is false. */
export interface PluginReadiness {
  readonly ready: boolean;
  /** Why not; empty when ready. */
  readonly reason: string;
}

/** A port as the plugin-hosts serve it now. */
export interface PortSummary {
  readonly port: Port;
  readonly subscribers: readonly {
    readonly plugin: string;
    readonly version: string;
    readonly ready: boolean;
    readonly required: boolean;
    readonly failurePolicy: FailurePolicy;
    /** JSON; empty = asked for everything. */
    readonly match: string;
    /** Only watches. */
    readonly shadow: boolean;
  }[];
  /** Milliseconds, for a subject whose every match holds. */
  readonly budgetMs: number;
  readonly failurePolicy: FailurePolicy;
  /** Why the port cannot be asked at all; absent when it can. */
  readonly failing?: string;
}

/** The plugin-hosts, as the gateway and the runner use them. */
export interface PluginHosts {
  /**
   * Hooks that ask the plugins; `{}` when no address is configured. The fields stay for good and follow subscriptions:
   * chain them once. A gate nobody is asked at answers synchronously, without a call.
   */
  hooks(): Hooks;
  /** Plugin tools whose match holds for the principal. */
  tools(principal: Principal): readonly ToolDefinition[];
  /** Executes a plugin's tool once; never rejects. */
  executeTool(invocation: ToolInvocation, signal: AbortSignal): Promise<ToolExecution>;
  /** Hex SHA-256 over the plugins that would be asked now before a call of this tool runs, in order. */
  gateVersionOf(tool: string, principal: Principal): string;
  /**
   * Hands a committed ledger event to the plugins that subscribe to it: in order per run, at most once, not awaited.
   * Whoever hands over all it commits leaves out the notification hooks (`NOTIFIED_BY_HOOKS`), or events are sent twice.
   */
  notify(notice: EventNotice): void;
  readiness(): PluginReadiness;
  /** Called when `readiness` changes; the returned function ends that. */
  onReadyChange(listener: (readiness: PluginReadiness) => void): () => void;
  /** Ports with something to ask now, in loop order. */
  ports(): readonly PortSummary[];
  /** Where replicas would not ask the same now; empty with one replica. */
  differences(): readonly ChainDifference[];
  /** Newest chain epoch seen; 0 before the first snapshot. */
  epoch(): number;
  readonly plugins: PluginAdmin;
  /** Ends watches and channels; calls under way fail. */
  close(): Promise<void>;
}

/** Ledger events that the notification hooks send. */
export const NOTIFIED_BY_HOOKS: ReadonlySet<LedgerEventType> = new Set<LedgerEventType>([
  'run.started',
  'turn.started',
  'turn.resumed',
  'tool.execution_started',
  'turn.completed',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.timed_out',
  'run.blocked',
]);

const NO_HOOKS: Hooks = Object.freeze({});

/** Connects to the plugin-hosts and keeps watching them until `close`. @throws AppError `config_invalid` for a bad address */
export function connectPluginHosts(options: PluginHostsOptions): PluginHosts {
  const { logger, metrics, clock = systemClock, gateTimeoutMs = defaultGateBudgetMs } = options;
  const addresses = options.urls.map(parseAddress);
  const memory = new ChainMemory(options.epochStore, logger);
  const replicas = new ReplicaSet(addresses, {
    replica: {
      clientName: options.clientName ?? '',
      token: options.token,
      tls: options.tls,
      clock,
      logger,
      traced: options.traced,
    },
    resolve: options.resolve ?? resolveHost,
    resolveEveryMs: options.resolveEveryMs ?? 5_000,
    snapshotServesMs: options.snapshotServesMs ?? 10_000,
    memory,
    clock,
    logger,
    metrics,
  });
  const asker = new GateAsker(replicas, clock, options.authorityNow ?? clock.now, options.signCapability);
  const notifications = new NotificationQueue(replicas, asker, metrics);
  const executor = new ToolExecutor(replicas, asker);
  const hooks =
    addresses.length === 0 ? NO_HOOKS : remoteHooks({ replicas, asker, memory, clock, gateTimeoutMs, notifications });
  replicas.start();
  return {
    hooks: () => hooks,
    tools: (principal) => visibleTools(replicas.standing, principal),
    executeTool: (invocation, signal) => executor.execute(invocation, signal),
    gateVersionOf: (tool, principal) => gateVersion(replicas.standing, tool, principal),
    notify: (notice) => notifications.send(notice),
    readiness: () => readinessOf(replicas.standing),
    onReadyChange(listener) {
      let last = readinessOf(replicas.standing);
      return replicas.onStanding((standing) => {
        const next = readinessOf(standing);
        if (next.ready === last.ready && next.reason === last.reason) return;
        last = next;
        listener(next);
      });
    },
    ports: () => summaries(replicas.standing, gateTimeoutMs),
    differences: () => replicas.differences(),
    epoch: () => replicas.epoch,
    plugins: pluginAdmin(replicas),
    async close() {
      notifications.close();
      await replicas.close();
    },
  };
}

function readinessOf({ ready, reason }: Standing): PluginReadiness {
  return { ready, reason };
}

function subjectOf({ tenant, agent, mode }: Principal, tool: string): MatchSubject {
  return { tenant, agent, mode: mode ?? '', tool };
}

function visibleTools(standing: Standing, principal: Principal): readonly ToolDefinition[] {
  const visible: ToolDefinition[] = [];
  for (const [name, { definition, matches }] of standing.tools) {
    if (holds(matches, subjectOf(principal, name))) visible.push(definition);
  }
  return visible;
}

function gateVersion(standing: Standing, tool: string, principal: Principal): string {
  const state = standing.gates['tools/pre-execute'];
  const subject = subjectOf(principal, tool);
  const asked = (state?.subscribers ?? [])
    .filter((one) => holds(one.matches, subject))
    .map((one) => [one.plugin, one.policy]);
  return sha256(JSON.stringify(asked));
}

function summaries(standing: Standing, baseMs: number): readonly PortSummary[] {
  const described = (shadow: boolean, subscribers: readonly ViewSubscriber[] = []) =>
    subscribers.map(({ plugin, version, ready, required, failurePolicy, matchJson }) => ({
      plugin,
      version,
      ready,
      required,
      failurePolicy,
      match: matchJson,
      shadow,
    }));
  const present = ports.filter((port) => standing.gates[port] !== undefined || standing.shadows[port] !== undefined);
  return present.map((port): PortSummary => {
    const state = standing.gates[port] ?? { port, subscribers: [], unconditional: false, missing: [] };
    return summaryOf(
      state,
      [...described(false, state.subscribers), ...described(true, standing.shadows[port])],
      baseMs,
    );
  });
}

function summaryOf(state: PortState, subscribers: PortSummary['subscribers'], baseMs: number): PortSummary {
  return {
    port: state.port,
    subscribers,
    budgetMs: Math.max(baseMs, ...state.subscribers.map((one) => one.budgetMs)),
    failurePolicy: strictest(portSpec(state.port).failureDefault, ...state.subscribers.map((one) => one.failurePolicy)),
    ...(state.failing === undefined ? {} : { failing: state.failing.reason }),
  };
}
