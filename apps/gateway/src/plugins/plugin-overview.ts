import type { gate } from '@codedock/proto';
import type { z } from 'zod';
import type { ReplicaPlugins } from './plugin-hosts.js';
import type { plugin, pluginChain } from './plugin.schema.js';

type Plugin = z.infer<typeof plugin>;
type PluginChain = z.infer<typeof pluginChain>;

/** States from worst to best: what an administrator has to know first. */
const BY_URGENCY = ['failed', 'stopped', 'disabled', 'starting', 'draining', 'ready'];

/** Ports where a later plugin may change what an earlier one has judged. */
const JUDGED_IN_ORDER: ReadonlySet<string> = new Set(['agent/input', 'tools/pre-execute']);

/** Plugins over all replicas, in chain order; disabled ones that no replica knows come last. */
export function pluginsOf(replicas: readonly ReplicaPlugins[], disabled: readonly string[]): Plugin[] {
  const byName = new Map<string, Plugin>();
  for (const answer of replicas) {
    if ('unreachable' in answer) continue;
    for (const status of answer.plugins) {
      const known = byName.get(status.name);
      byName.set(status.name, joined(known, status, answer.replica, disabled.includes(status.name)));
    }
  }
  for (const name of disabled) {
    if (byName.has(name)) continue;
    byName.set(name, { name, state: 'disabled', required: false, disabled: true, ports: [], tools: [], replicas: [] });
  }
  return [...byName.values()];
}

function joined(known: Plugin | undefined, status: gate.PluginStatus, replica: string, disabled: boolean): Plugin {
  const own = {
    replica,
    state: status.state,
    generation: status.generation,
    restarts: status.restarts,
    ...(status.reason === '' ? {} : { reason: status.reason }),
  };
  if (known !== undefined && BY_URGENCY.indexOf(known.state) <= BY_URGENCY.indexOf(status.state)) {
    return { ...known, replicas: [...known.replicas, own] };
  }
  return {
    name: status.name,
    state: status.state,
    required: status.required,
    disabled,
    ports: status.subscriptions,
    tools: status.tools,
    replicas: [...(known?.replicas ?? []), own],
    ...(status.version === '' ? {} : { version: status.version }),
    ...(status.generation === 0 ? {} : { generation: status.generation }),
    ...(status.reason === '' ? {} : { reason: status.reason }),
  };
}

/** The effective chain of every port: the newest replica's, with a warning where others differ. */
export function chainOf(snapshots: readonly gate.Snapshot[], desired: { readonly epoch: number; readonly disabled: readonly string[] }): PluginChain {
  const newest = [...snapshots].sort((a, b) => b.chainEpoch - a.chainEpoch)[0];
  const ports = (newest?.ports ?? []).map(portOf);
  return {
    epoch: desired.epoch,
    ready: newest?.ready ?? false,
    ...(newest === undefined ? { reason: 'no plugin-host has reported its plugins' } : newest.ready ? {} : { reason: newest.reason }),
    disabled: [...desired.disabled],
    ports,
    missing: (newest?.missingRequired ?? []).map(({ plugin, reason }) => ({ plugin, reason })),
    warnings: [...disagreements(snapshots), ...ports.flatMap(orderWarning)],
  };
}

function portOf({ port, subscribers, strictestFailurePolicy, budgetMs }: gate.PortSnapshot): PluginChain['ports'][number] {
  return {
    port,
    failurePolicy: strictestFailurePolicy,
    budgetMs,
    subscribers: subscribers.map((one) => ({
      plugin: one.plugin,
      state: one.state,
      ready: one.ready,
      required: one.required,
      failurePolicy: one.failurePolicy,
      timeoutMs: one.timeoutMs,
      budgetMs: one.budgetMs,
      ...(one.version === '' ? {} : { version: one.version }),
      ...(one.policyVersion === '' ? {} : { policyVersion: one.policyVersion }),
      ...(one.checksum === '' ? {} : { checksum: one.checksum }),
      ...(one.matchJson === '' ? {} : { match: JSON.parse(one.matchJson) }),
    })),
  };
}

function orderWarning({ port, subscribers }: PluginChain['ports'][number]): string[] {
  if (!JUDGED_IN_ORDER.has(port) || subscribers.length < 2) return [];
  const [first, ...later] = subscribers.map((one) => one.plugin);
  return [`${port}: ${later.join(', ')} may change what ${first} has judged; order follows folder names, and reinvoke asks again`];
}

function disagreements(snapshots: readonly gate.Snapshot[]): string[] {
  const chains = new Set(snapshots.map((snapshot) => JSON.stringify(snapshot.ports.map((port) => [port.port, port.subscribers.map(({ plugin, checksum, configDigest }) => [plugin, checksum, configDigest])]))));
  return chains.size > 1 ? ['the replicas of the plugin-host do not serve the same chain'] : [];
}
