import { createHash } from 'node:crypto';
import {
  canonicalJson,
  type EffectClass,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type ToolDefinition,
} from '@codedock/domain';
import { defaultToolTimeoutMs, type gate, isPort, maxGateBudgetMs, type Port } from '@codedock/proto';
import { compileMatch, type Match, type MatchSubject } from '../ports/match.js';
import { type FailurePolicy, portSpec } from '../ports/port-table.js';

/** A plugin on a port, as one replica reports it. */
export interface ViewSubscriber {
  readonly plugin: string;
  /** What decides: the manifest's policy version, else version, checksum and configuration. */
  readonly policy: string;
  readonly version: string;
  readonly ready: boolean;
  readonly required: boolean;
  readonly failurePolicy: FailurePolicy;
  /** Milliseconds; 0 = not set. */
  readonly budgetMs: number;
  readonly matchJson: string;
  /** Undefined = asked for everything. */
  readonly matches: Match | undefined;
}

/** A required plugin that never came up. */
export interface MissingPlugin {
  readonly plugin: string;
  readonly reason: string;
  readonly matches: Match | undefined;
}

/** A plugin's tool. */
export interface ViewTool {
  readonly definition: ToolDefinition;
  readonly live: boolean;
  readonly matches: Match | undefined;
}

/** One replica's snapshot, compiled once. */
export interface ChainView {
  readonly epoch: number;
  readonly ready: boolean;
  readonly reason: string;
  /** Without those that only watch. */
  readonly ports: ReadonlyMap<Port, readonly ViewSubscriber[]>;
  /** Plugins in shadow mode, by port. */
  readonly shadows: ReadonlyMap<Port, readonly ViewSubscriber[]>;
  /** Plugin folders the host knows, whatever their state. */
  readonly plugins: number;
  readonly missing: readonly MissingPlugin[];
  readonly tools: ReadonlyMap<string, ViewTool>;
  /** Ledger events that a plugin subscribes to. */
  readonly events: ReadonlySet<string>;
  /** False: the host itself is not ready (desired state unread, draining), so that what it does not list means nothing. */
  readonly complete: boolean;
}

/** True when something with this match is asked for the subject. */
export function holds(matches: Match | undefined, subject: MatchSubject): boolean {
  return matches === undefined || matches(subject);
}

/** Compiles a snapshot. Never throws: what cannot be read is left out (tools) or taken at its strictest (policies, matches). */
export function compileSnapshot(snapshot: gate.Snapshot): ChainView {
  const ports = new Map<Port, readonly ViewSubscriber[]>();
  const shadows = new Map<Port, readonly ViewSubscriber[]>();
  for (const { port, subscribers } of snapshot.ports) {
    if (!isPort(port)) continue;
    const compiled = (shadow: boolean) =>
      subscribers.filter((one) => one.shadow === shadow).map((one) => compileSubscriber(port, one));
    for (const [map, list] of [
      [ports, compiled(false)],
      [shadows, compiled(true)],
    ] as const) {
      if (list.length > 0) map.set(port, list);
    }
  }
  const missing = snapshot.missingRequired.map(({ plugin, reason, matchJson }) => ({
    plugin,
    reason,
    matches: compileMatch(matchJson),
  }));
  return {
    epoch: snapshot.chainEpoch,
    ready: snapshot.ready,
    reason: snapshot.reason,
    ports,
    shadows,
    plugins: snapshot.plugins,
    missing,
    tools: compileTools(snapshot.tools),
    events: new Set(snapshot.events.filter(({ plugins }) => plugins.length > 0).map(({ event }) => event)),
    complete: snapshot.ready || missing.length > 0,
  };
}

function compileSubscriber(port: Port, one: gate.Subscriber): ViewSubscriber {
  return {
    plugin: one.plugin,
    policy: one.policyVersion || `${one.version}+${one.checksum}+${one.configDigest}`,
    version: one.version,
    ready: one.ready,
    required: one.required,
    failurePolicy: one.failurePolicy === 'open' ? portSpec(port).failureDefault : 'closed',
    budgetMs: Math.min(one.budgetMs, maxGateBudgetMs),
    matchJson: one.matchJson,
    matches: compileMatch(one.matchJson),
  };
}

const EFFECTS: ReadonlySet<string> = new Set<EffectClass>(['pure', 'idempotent', 'effectful']);

function compileTools(tools: readonly gate.ToolSnapshot[]): ReadonlyMap<string, ViewTool> {
  const compiled = new Map<string, ViewTool>();
  for (const tool of tools) {
    const parameters = parsedSchema(tool.parametersSchema);
    if (parameters === undefined || compiled.has(tool.name)) continue;
    compiled.set(tool.name, {
      definition: {
        name: tool.name,
        description: tool.prompt,
        parameters,
        requiresApproval: tool.requiresApproval,
        effect: EFFECTS.has(tool.effectClass) ? (tool.effectClass as EffectClass) : 'effectful',
        timeoutMs: tool.timeoutMs || defaultToolTimeoutMs,
        schemaDigest: sha256(canonicalJson(parameters)),
        plugin: tool.plugin,
      },
      live: tool.live,
      matches: compileMatch(tool.matchJson),
    });
  }
  return compiled;
}

function parsedSchema(bytes: Buffer): JsonObject | undefined {
  try {
    const value = JSON.parse(bytes.length === 0 ? '{"type":"object"}' : bytes.toString('utf8')) as JsonValue;
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Hex SHA-256 of UTF-8 text. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
