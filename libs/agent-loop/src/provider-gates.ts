import { AppError, type JsonValue, jsonEqual, type ModelGates, type Turn } from '@codedock/domain';
import { overlaidHeaders } from '@codedock/hooks';
import { askGate, endedByFailure, endedUnasked } from './ask-gate.js';
import type { Attempt } from './attempt.js';
import type { LoopExit } from './loop-result.js';

/** The model port's gates for one call, and how the run ends if one of them said so. */
export interface ProviderGates {
  readonly gates: ModelGates;
  /** Present once a gate has ended the run, whatever the adapter made of what was thrown to it. */
  exit(): LoopExit | undefined;
}

/** Fills the model port's gates from the hooks: absent hooks stay absent. */
export function providerGates(attempt: Attempt, turn: Turn): ProviderGates {
  const place = { turnId: turn.id };
  const { beforeProviderHeaders, beforeProviderRequest, afterProviderResponse } = attempt.hooks;
  let exit: LoopExit | undefined;

  const orExit = async <T>(ask: Promise<T>): Promise<T> => {
    try {
      return await ask;
    } catch (error) {
      if (!attempt.bounds.closed) exit = endedByFailure(error);
      throw error;
    }
  };

  const gates: ModelGates = {
    ...(beforeProviderHeaders && {
      headers: async (headers) => {
        const decision = await orExit(askGate(attempt, 'beforeProviderHeaders', { headers }, place));
        return decision?.headers ?? headers;
      },
    }),
    ...(beforeProviderRequest && {
      request: async (request) => {
        const decision = await orExit(askGate(attempt, 'beforeProviderRequest', request, place));
        if (decision?.kind === 'could_not_ask') {
          exit = endedUnasked(decision);
          throw new AppError(decision.code, decision.reason);
        }
        return {
          headers: overlaidHeaders(request.headers, decision?.headers ?? {}),
          body: changedBody(request.body, decision?.body),
        };
      },
    }),
    ...(afterProviderResponse && {
      // Its failure fails the attempt: whether there is another one is the adapter's retry policy.
      response: async (response) => {
        await askGate(attempt, 'afterProviderResponse', response, place);
      },
    }),
  };
  return { gates, exit: () => exit };
}

/** The answer's text as it is, unless it is the same JSON value: re-encoding is no change. */
function changedBody(original: string, answered: string | undefined): string {
  if (answered === undefined || answered === original) return original;
  try {
    return jsonEqual(JSON.parse(original) as JsonValue, JSON.parse(answered) as JsonValue) ? original : answered;
  } catch {
    return answered;
  }
}
