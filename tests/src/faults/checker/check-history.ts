import type { History } from './history.js';
import { failedVetoBlocks, hooksInOrder, noHooksNoTrace, unsubscribedIsNotAsked } from './hooks.js';
import type { Invariant, Violation } from './invariant.js';
import { numbersWithoutGap, pushedIsStored, tenantsStayApart } from './ledger.js';
import {
  acceptedRunsEnd,
  handledInputLeavesNothing,
  noStaleWrites,
  oneRunPerKey,
  oneTerminalEvent,
  runsOfASessionDoNotOverlap,
} from './runs.js';
import { noSecretEscapes, nothingIsLeft } from './surroundings.js';
import { builtInToolsStay, effectsAtMostOnce, executedWasAllowed } from './tools.js';

/** Every promise that a history is judged by, I1 to I18. */
export const INVARIANTS: readonly Invariant[] = [
  acceptedRunsEnd,
  oneTerminalEvent,
  numbersWithoutGap,
  pushedIsStored,
  noStaleWrites,
  effectsAtMostOnce,
  executedWasAllowed,
  failedVetoBlocks,
  hooksInOrder,
  noHooksNoTrace,
  tenantsStayApart,
  unsubscribedIsNotAsked,
  noSecretEscapes,
  handledInputLeavesNothing,
  oneRunPerKey,
  builtInToolsStay,
  nothingIsLeft,
  runsOfASessionDoNotOverlap,
];

/** A broken promise, with the invariant's id. */
export interface Finding extends Violation {
  readonly id: string;
}

/** Everything in a history that breaks a promise. */
export function checkHistory(history: History): readonly Finding[] {
  return INVARIANTS.flatMap(({ id, check }) => check(history).map((violation) => ({ id, ...violation })));
}
