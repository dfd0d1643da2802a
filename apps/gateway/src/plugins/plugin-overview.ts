import type { PluginHosts, PortSummary } from '@codedock/plugin-bridge';
import type { gate } from '@codedock/proto';
import type { DeliveryState } from '@codedock/store';
import type { z } from 'zod';
import type { plugin, pluginChain } from './plugin.schema.js';

type Plugin = z.infer<typeof plugin>;
type ReplicaPlugins = Awaited<ReturnType<PluginHosts['plugins']['list']>>[number];
type PluginChain = z.infer<typeof pluginChain>;

/** States from worst to best: what an administrator has to know first. */
const BY_URGENCY = ['failed', 'stopped', 'disabled', 'starting', 'draining', 'ready'];

/** Ports where a later plugin may change what an earlier one has judged. */
const JUDGED_IN_ORDER: ReadonlySet<string> = new Set(['agent/input', 'agent/pre-step', 'tools/pre-execute']);

/** Plugins over all replicas, in chain order; disabled ones that no replica knows come last. */
export function pluginsOf(
  replicas: readonly ReplicaPlugins[],
  disabled: readonly string[],
  deliveries: readonly DeliveryState[] = [],
): Plugin[] {
  const byName = new Map<string, Plugin>();
  for (const answer of replicas) {
    if (!answer.ok) continue;
    for (const status of answer.value) {
      const known = byName.get(status.name);
      byName.set(status.name, joined(known, status, answer.replica, disabled.includes(status.name)));
    }
  }
  for (const name of disabled) {
    if (byName.has(name)) continue;
    byName.set(name, { name, state: 'disabled', required: false, disabled: true, ports: [], tools: [], replicas: [] });
  }
  const states = new Map(deliveries.map((state) => [state.plugin, state]));
  return [...byName.values()].map((known) => {
    const state = states.get(known.name);
    if (state === undefined) return known;
    const { plugin: _, lagMs = 0, ...rest } = state;
    return { ...known, delivery: { ...rest, lagMs } };
  });
}

function joined(known: Plugin | undefined, status: gate.PluginStatus, replica: string, disabled: boolean): Plugin {
  const own = {
    replica,
    state: status.state,
    generation: status.generation,
    restarts: status.restarts,
    droppedEvents: status.droppedEvents,
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

/** Replicas that gave no answer, and why. */
export function unreachable(replicas: readonly ReplicaPlugins[]): { replica: string; reason: string }[] {
  return replicas.flatMap((one) => (one.ok ? [] : [{ replica: one.replica, reason: one.message }]));
}

/** The effective chain of every port, as this gateway would ask it now. */
export function chainOf(
  hosts: Pick<PluginHosts, 'ports' | 'readiness' | 'differences'>,
  desired: { readonly epoch: number; readonly disabled: readonly string[] },
): PluginChain {
  const { ready, reason } = hosts.readiness();
  const ports = hosts.ports().map(portOf);
  return {
    epoch: desired.epoch,
    ready,
    ...(reason === '' ? {} : { reason }),
    disabled: [...desired.disabled],
    ports,
    warnings: [...hosts.differences().map(differenceWarning), ...ports.flatMap(orderWarning)],
  };
}

function portOf({ port, subscribers, budgetMs, failurePolicy, failing }: PortSummary): PluginChain['ports'][number] {
  return {
    port,
    failurePolicy,
    budgetMs,
    ...(failing === undefined ? {} : { failing }),
    subscribers: subscribers.map(({ plugin, version, ready, required, failurePolicy, match, shadow }) => ({
      plugin,
      ready,
      required,
      failurePolicy,
      ...(version === '' ? {} : { version }),
      ...(match === '' ? {} : { match: JSON.parse(match) }),
      ...(shadow ? { shadow } : {}),
    })),
  };
}

function differenceWarning({ port, plugin, replicas }: ReturnType<PluginHosts['differences']>[number]): string {
  const versions = replicas.map(({ replica, version }) => {
    if (version === undefined) return `not asked on ${replica}`;
    return `${version === '' ? 'no version' : version} on ${replica}`;
  });
  const same = new Set(replicas.map(({ version }) => version)).size === 1;
  const why = same ? ' (other code, configuration or settings)' : '';
  return `${port}: plugin-hosts differ in ${plugin}${why}: ${versions.join(', ')}. While a roll goes on this is expected; else restart the host that is behind`;
}

function orderWarning({ port, subscribers }: PluginChain['ports'][number]): string[] {
  const asked = subscribers.filter((one) => one.shadow !== true);
  if (!JUDGED_IN_ORDER.has(port) || asked.length < 2) return [];
  // Two versions of one plugin, on two replicas, are one place of the chain.
  const [first, ...later] = [...new Set(asked.map((one) => one.plugin))];
  if (later.length === 0) return [];
  const names = later.join(', ');
  return [`${port}: ${names} may change what ${first} has judged; order follows folder names, and reinvoke asks again`];
}
