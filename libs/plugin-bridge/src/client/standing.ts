import type { HookOutcome } from '@codedock/domain';
import { type Port, ports } from '@codedock/proto';
import type { MatchSubject } from '../ports/match.js';
import type { ChainMemory, RememberedSubscriber } from './chain-memory.js';
import { type ChainView, holds, type MissingPlugin, type ViewSubscriber, type ViewTool } from './chain-view.js';

/** Why a gate as a whole cannot be asked. */
export interface WholeFailure {
  readonly outcome: HookOutcome;
  readonly reason: string;
  readonly by?: string;
}

/** What stands at a port now. A port without one has nothing to ask. */
export interface PortState {
  readonly port: Port;
  /** Of all replicas: distinct by plugin, policy and match. */
  readonly subscribers: readonly ViewSubscriber[];
  /** Some subscriber is asked for everything: no match has to be evaluated to know that somebody is asked. */
  readonly unconditional: boolean;
  /** Required plugins that came up on no replica. */
  readonly missing: readonly MissingPlugin[];
  /** The port cannot be asked at all. */
  readonly failing?: WholeFailure & {
    /** Who would have been asked, where that is known: nobody else is refused. */
    readonly only?: readonly RememberedSubscriber[];
  };
}

/** Everything that follows from the snapshots, computed when one changes and read by every call. */
export interface Standing {
  readonly gates: Readonly<Partial<Record<Port, PortState>>>;
  /** Plugins that only watch: nobody waits for them and they fail nothing. */
  readonly shadows: Readonly<Partial<Record<Port, readonly ViewSubscriber[]>>>;
  readonly tools: ReadonlyMap<string, ViewTool>;
  readonly events: ReadonlySet<string>;
  readonly ready: boolean;
  /** Why not ready; empty when ready. */
  readonly reason: string;
}

const NO_TOOLS: ReadonlyMap<string, ViewTool> = new Map();
const NO_EVENTS: ReadonlySet<string> = new Set();

/** Where no address is configured: nothing to ask, and ready. */
export const NO_PLUGINS: Standing = {
  gates: {},
  shadows: {},
  tools: NO_TOOLS,
  events: NO_EVENTS,
  ready: true,
  reason: '',
};

/** Every port counts as subscribed and fails. */
export function failingStanding(outcome: HookOutcome, reason: string): Standing {
  const gates: Partial<Record<Port, PortState>> = {};
  for (const port of ports) {
    gates[port] = { port, subscribers: [], unconditional: true, missing: [], failing: { outcome, reason } };
  }
  return { gates, shadows: {}, tools: NO_TOOLS, events: NO_EVENTS, ready: false, reason };
}

/** The standing under complete snapshots of the same, newest epoch (at least one). */
export function servingStanding(views: readonly ChainView[], memory: ChainMemory): Standing {
  const epoch = Math.max(...views.map((view) => view.epoch));
  const merged = mergedPorts(views);
  const missing = missingEverywhere(views);
  const copy = memory.chain;
  const gates: Partial<Record<Port, PortState>> = {};
  for (const port of ports) {
    const subscribers = merged.get(port) ?? [];
    if (subscribers.length === 0 && missing.length === 0) continue;
    gates[port] = { port, subscribers, unconditional: subscribers.some((one) => one.matches === undefined), missing };
  }
  const tools = new Map<string, ViewTool>();
  const events = new Set<string>();
  for (const view of views) {
    for (const [name, tool] of view.tools) if (!tools.has(name)) tools.set(name, tool);
    for (const event of view.events) events.add(event);
  }
  const blocking = missing.find((one) => one.matches === undefined);
  let reason = blocking === undefined ? '' : `The required plugin ${blocking.plugin} never came up: ${blocking.reason}`;
  // A host that knows plugins and lists none was told to take them out; one that knows none has lost its folder.
  const bare = merged.size === 0 && missing.length === 0 && views.every((view) => view.plugins === 0);
  if (bare && !memory.loaded)
    return failingStanding('not ready', 'The copy of the plugin chain has not been read yet.');
  const lost = bare && copy !== undefined && copy.epoch === epoch && copy.ports.size > 0;
  if (lost) {
    reason = `The plugin-host reports no plugins, but chain epoch ${epoch} has some; check its plugin folder.`;
    for (const [port, only] of copy.ports) {
      const failing = { outcome: 'not ready' as const, reason, only };
      gates[port] = {
        port,
        subscribers: [],
        unconditional: only.some((one) => one.matches === undefined),
        missing,
        failing,
      };
    }
  }
  const shadows = Object.fromEntries(mergedSubscribers(views.map((view) => view.shadows)));
  return { gates, shadows, tools, events, ready: reason === '', reason };
}

/** The subscribers of every port over all views, in chain order of the view that names them first. */
export function mergedPorts(views: readonly ChainView[]): ReadonlyMap<Port, readonly ViewSubscriber[]> {
  return mergedSubscribers(views.map((view) => view.ports));
}

function mergedSubscribers(
  maps: readonly ReadonlyMap<Port, readonly ViewSubscriber[]>[],
): ReadonlyMap<Port, readonly ViewSubscriber[]> {
  const merged = new Map<Port, ViewSubscriber[]>();
  for (const ports of maps) {
    for (const [port, subscribers] of ports) {
      const list = merged.get(port) ?? [];
      merged.set(port, list);
      for (const one of subscribers) if (!list.some((other) => sameQuestion(one, other))) list.push(one);
    }
  }
  return merged;
}

function sameQuestion(a: ViewSubscriber, b: ViewSubscriber): boolean {
  return (
    a.plugin === b.plugin &&
    a.policy === b.policy &&
    a.matchJson === b.matchJson &&
    a.failurePolicy === b.failurePolicy &&
    a.budgetMs === b.budgetMs
  );
}

function missingEverywhere(views: readonly ChainView[]): readonly MissingPlugin[] {
  const [first, ...rest] = views;
  if (first === undefined) return [];
  return first.missing.filter(({ plugin }) =>
    rest.every((view) => view.missing.some((other) => other.plugin === plugin)),
  );
}

/** Whether anybody is asked (or missed) at the port for this subject. */
export function concerns(state: PortState, subject: () => MatchSubject): boolean {
  if (state.unconditional) return true;
  const about = subject();
  if (state.failing?.only?.some((one) => holds(one.matches, about))) return true;
  return (
    state.subscribers.some((one) => holds(one.matches, about)) || state.missing.some((one) => holds(one.matches, about))
  );
}

/** The whole gate's failure for this subject, if it cannot be asked. */
export function wholeFailure(state: PortState, subject: MatchSubject): WholeFailure | undefined {
  if (state.failing !== undefined) return state.failing;
  const missing = state.missing.find((one) => holds(one.matches, subject));
  if (missing === undefined) return undefined;
  return {
    outcome: 'not ready',
    reason: `The required plugin ${missing.plugin} never came up: ${missing.reason}`,
    by: missing.plugin,
  };
}

/** Milliseconds of the gate: the base, or the largest budget of a subscriber whose match holds. */
export function budgetOf(state: PortState, subject: MatchSubject, baseMs: number): number {
  let budget = baseMs;
  for (const one of state.subscribers) {
    if (one.budgetMs > budget && holds(one.matches, subject)) budget = one.budgetMs;
  }
  return budget;
}

/** Whether a rewrite gate that could not be asked at all has to fail: a closed subscriber would have been asked, or nothing is known. */
export function failsClosed(memory: ChainMemory, state: PortState, subject: MatchSubject): boolean {
  const { port } = state;
  if (state.missing.some((one) => holds(one.matches, subject))) return true;
  const known = memory.chain;
  if (known === undefined) return true;
  const subscribers = known.ports.get(port) ?? [];
  return subscribers.some((one) => one.failurePolicy === 'closed' && holds(one.matches, subject));
}
