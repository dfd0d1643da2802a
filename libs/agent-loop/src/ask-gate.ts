import type { GateCall } from '@codedock/domain';
import {
  type CouldNotAsk,
  failedHookOf,
  type GateDecision,
  type GateEvent,
  type GateHook,
  type GateName,
  hookFailure,
  isKnownKind,
  type NotificationHook,
  type NotificationName,
  type Notifications,
  notify,
} from '@codedock/hooks';
import type { Attempt } from './attempt.js';
import type { Bounds } from './bounds.js';
import { ending, type LoopExit } from './loop-result.js';

/** Where in the run a gate stands. */
export interface GatePlace {
  readonly turnId?: string;
  readonly callId?: string;
}

/**
 * Asks a gate; undefined where there is no hook. What an in-process hook throws, or answers that is no decision of the
 * gate, is thrown as a `hook_error`.
 */
export async function askGate<G extends GateName>(
  attempt: Attempt,
  gate: G,
  event: GateEvent<G>,
  place: GatePlace,
  bounds: Bounds = attempt.bounds,
): Promise<GateDecision<G> | undefined> {
  const hook = attempt.hooks[gate] as GateHook<G> | undefined;
  if (hook === undefined) return undefined;
  const call = openGate(attempt, place, bounds.signal);
  try {
    const decision = await bounds.race((async () => hook(event, call))());
    if (!isKnownKind(gate, decision)) throw new TypeError(`the answer is no decision of ${gate}`);
    return decision;
  } catch (error) {
    bounds.check();
    attempt.ports.report?.(error, gate);
    throw hookFailure(gate, error);
  }
}

/** Tells a notification's hook, if there is one. */
export function tell<N extends NotificationName>(
  attempt: Attempt,
  name: N,
  event: Notifications[N],
  place: GatePlace,
): void {
  notify(attempt.hooks[name] as NotificationHook<N> | undefined, event, () =>
    openGate(attempt, place, attempt.bounds.signal),
  );
}

/** Opens a gate in the ledger and adds the view for in-process hooks. */
export function openGate(attempt: Attempt, place: GatePlace, signal: AbortSignal): GateCall {
  const call = attempt.ports.ledger.gate(place, signal);
  return {
    site: call.site,
    principal: call.principal,
    signal: call.signal,
    scratchpad: call.scratchpad,
    merge: (patch) => call.merge(patch),
    record: (record) => call.record(record),
    get records() {
      return call.records;
    },
    loop: attempt.view(),
  };
}

/** The run's end after an in-process hook broke. */
export function endedByFailure(error: unknown): LoopExit {
  const message = error instanceof Error ? error.message : 'A hook failed.';
  return ending('hook_error', message, failedHookOf(error));
}

/** The run's end when a gate could not be asked. */
export function endedUnasked(failure: CouldNotAsk): LoopExit {
  return ending(failure.code, failure.reason, failure.by ?? 'host');
}

/** Asks a gate whose failure ends the run: a broken hook as `hook_error`, an unasked one as `blocked`. */
export async function askOrEnd<G extends GateName>(
  attempt: Attempt,
  gate: G,
  event: GateEvent<G>,
  place: GatePlace,
): Promise<Exclude<GateDecision<G>, CouldNotAsk> | undefined> {
  let decision: GateDecision<G> | undefined;
  try {
    decision = await askGate(attempt, gate, event, place);
  } catch (error) {
    attempt.bounds.check();
    throw endedByFailure(error);
  }
  if (isUnasked(decision)) throw endedUnasked(decision);
  return decision as Exclude<GateDecision<G>, CouldNotAsk> | undefined;
}

function isUnasked(decision: unknown): decision is CouldNotAsk {
  return typeof decision === 'object' && decision !== null && (decision as CouldNotAsk).kind === 'could_not_ask';
}
