import { portSpec, strictest } from '@codedock/plugin-bridge';
import { type gate, type Port, ports } from '@codedock/proto';
import type { Entry, PluginSet } from '../session/plugin-set.js';

/** What a snapshot says beside the plugins. */
export interface SnapshotHeader {
  readonly instanceId: string;
  readonly chainEpoch: number;
  /** Why this host takes no calls whatever its plugins do; empty when it does. */
  readonly notReady: string;
}

/** The whole state of the host as gateway and runner see it. */
export function snapshotOf(set: PluginSet, header: SnapshotHeader): gate.Snapshot {
  const { table } = set;
  const missing = table.missing.map(({ plugin, reason, matchJson = '' }) => ({ plugin, reason, matchJson }));
  // One that is missed by some callers only must not take the host from the others.
  const first = missing.find(({ matchJson }) => matchJson === '');
  const reason =
    header.notReady || (first === undefined ? '' : `required plugin ${first.plugin} is not up: ${first.reason}`);
  return {
    instanceId: header.instanceId,
    chainEpoch: header.chainEpoch,
    ready: reason === '',
    reason,
    ports: ports.flatMap((port) => portSnapshot(set, port)),
    tools: [...table.tools.values()].map(({ session, tool }) => ({
      plugin: session.name,
      name: tool.name,
      prompt: tool.prompt,
      parametersSchema: tool.parametersSchema,
      requiresApproval: tool.requiresApproval,
      effectClass: tool.effectClass,
      timeoutMs: tool.timeoutMs,
      capabilities: tool.capabilities,
      matchJson: toolMatch(session.settings.matchJson),
      live: session.live,
    })),
    events: [...table.events].map(([event, entries]) => ({ event, plugins: entries.map(({ name }) => name) })),
    missingRequired: missing,
    plugins: set.list().length,
  };
}

function portSnapshot(set: PluginSet, port: Port): gate.PortSnapshot[] {
  const { table } = set;
  const endpoints = table.endpoints.get(port) ?? [];
  if (endpoints.length === 0) return [];
  const subscribers = endpoints.flatMap((endpoint) => {
    const entry = set.find(endpoint.plugin);
    if (entry.kind === 'refused') return [];
    const { session } = entry;
    return {
      plugin: endpoint.plugin,
      ...endpoint.identity,
      state: session.state,
      ready: session.state === 'ready',
      everReady: session.everReady,
      required: session.settings.required,
      failurePolicy: endpoint.failurePolicy,
      budgetMs: session.settings.budgetMs[port] ?? 0,
      timeoutMs: endpoint.timeoutMs,
      maxPayloadBytes: endpoint.maxPayloadBytes,
      matchJson: session.settings.matchJson,
      shadow: endpoint.shadow === true,
    };
  });
  const strictestFailurePolicy = strictest(
    portSpec(port).failureDefault,
    ...endpoints.filter(({ shadow }) => !shadow).map(({ failurePolicy }) => failurePolicy),
  );
  return [{ port, subscribers, strictestFailurePolicy, budgetMs: table.budgets.get(port) ?? 0 }];
}

/** A plugin's own tools are offered by who asks; the list `tools` of its `match` is about the calls it judges. */
function toolMatch(matchJson: string): string {
  if (matchJson === '') return '';
  const { tools: _, ...rest } = JSON.parse(matchJson) as { readonly tools?: readonly string[] };
  return Object.keys(rest).length === 0 ? '' : JSON.stringify(rest);
}

/** One plugin as administrators see it. */
export function pluginStatus(entry: Entry, disabled: ReadonlySet<string>): gate.PluginStatus {
  if (entry.kind === 'refused') {
    return {
      name: entry.name,
      version: '',
      state: disabled.has(entry.name) ? 'disabled' : 'failed',
      reason: `refused: ${entry.refusal.reason}`,
      generation: 0,
      pid: 0,
      required: entry.refusal.required,
      everReady: false,
      restarts: 0,
      subscriptions: [],
      tools: [],
      droppedEvents: 0,
      checksum: '',
      configDigest: '',
      policyVersion: '',
    };
  }
  const { session, queue } = entry;
  const { version, generation, checksum, configDigest, policyVersion } = session.identity;
  return {
    name: entry.name,
    version,
    state: session.state,
    reason: session.reason,
    generation,
    pid: session.pid,
    required: session.settings.required,
    everReady: session.everReady,
    restarts: session.restarts,
    subscriptions: session.manifest?.subscriptions ?? [],
    tools: session.tools.list().map(({ name }) => name),
    droppedEvents: queue.dropped,
    checksum,
    configDigest,
    policyVersion,
  };
}
