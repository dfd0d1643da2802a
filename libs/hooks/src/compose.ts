import type { AskReason, GateCall } from '@codedock/domain';
import { isKnownKind } from './decision-shape.js';
import type { Ask, GateDecision, GateEvent, GateHook, GateName } from './gates.js';
import { hookFailure } from './hook-failure.js';
import { policyOf } from './policy.js';
import { hasKind, THREADINGS } from './threading.js';

/**
 * One hook that asks the given ones in argument order; `undefined` is skipped, the next sees what the former changed.
 * What ends the chain at once is the gate's policy (and `could_not_ask`); `ask` does not: later hooks are asked with the
 * arguments so far, all reasons are kept, and a later block, skip, abort or `could_not_ask` wins.
 * Composing nothing gives `undefined`; composing one hook gives that hook.
 */
export function compose<G extends GateName>(
  gate: G,
  ...hooks: readonly (GateHook<G> | undefined)[]
): GateHook<G> | undefined {
  const present = hooks.filter((hook) => hook !== undefined);
  if (present.length < 2) return present[0];
  return policyOf(gate).class === 'observe' ? observers(present) : serial(gate, present);
}

function observers<G extends GateName>(hooks: readonly GateHook<G>[]): GateHook<G> {
  return async (event, call) => {
    for (const hook of hooks) await hook(event, call);
    return undefined as GateDecision<G>;
  };
}

function serial<G extends GateName>(gate: G, hooks: readonly GateHook<G>[]): GateHook<G> {
  const ends = [...policyOf(gate).ends, 'could_not_ask'];
  const { apply, merged } = THREADINGS[gate];
  return async (first, call) => {
    let event = first;
    const reasons: AskReason[] = [];
    let asked = false;
    for (const hook of hooks) {
      const decision = await answerOf(gate, hook, event, call);
      if (decision === undefined) continue;
      if (hasKind(decision, ends)) return ended(gate, decision, first, event);
      if (hasKind(decision, ['ask'])) {
        asked = true;
        reasons.push(...(decision as Ask).reasons);
      }
      event = apply(event, decision);
    }
    const decision = merged(first, event);
    return asked ? ({ ...decision, kind: 'ask', reasons } as GateDecision<G>) : decision;
  };
}

/** Undefined: the hook's answer is left out and the value so far is kept. */
async function answerOf<G extends GateName>(
  gate: G,
  hook: GateHook<G>,
  event: GateEvent<G>,
  call: GateCall,
): Promise<GateDecision<G> | undefined> {
  try {
    const decision = await hook(event, call);
    if (!isKnownKind(gate, decision)) throw new TypeError(`the answer is no decision of ${gate}`);
    return decision;
  } catch (error) {
    if (gate !== 'afterToolCall' || call.signal.aborted) throw error;
    // The result exists already: a later hook that breaks must not undo what an earlier one took out of it.
    recordBrokenHook(call, gate, error);
    return undefined;
  }
}

/** Adds the audit line of an in-process hook whose failure is survived. */
export function recordBrokenHook(call: GateCall, gate: GateName, error: unknown): void {
  const failure = hookFailure(gate, error);
  const hook = failure.extra?.['hook'];
  call.record({
    gate,
    hook: typeof hook === 'string' ? hook : 'in-process',
    outcome: 'error',
    reason: failure.message,
    startedMs: 0,
    durationMs: 0,
    queueMs: 0,
  });
}

/** A stop after a model call keeps what earlier hooks made of the reply, since the reply is stored all the same. */
function ended<G extends GateName>(
  gate: G,
  decision: GateDecision<G>,
  first: GateEvent<G>,
  last: GateEvent<G>,
): GateDecision<G> {
  if (gate !== 'afterModelCall') return decision;
  const { merged, apply } = THREADINGS[gate];
  const { kind: _, ...changes } = merged(first, apply(last, decision)) as GateDecision<'afterModelCall'>;
  const { message: __, ...stop } = decision as GateDecision<'afterModelCall'>;
  return { ...stop, ...changes } as GateDecision<G>;
}
