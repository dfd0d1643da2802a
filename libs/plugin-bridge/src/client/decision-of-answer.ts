import type { ScratchpadPatch } from '@codedock/domain';
import type { CouldNotAsk, GateDecision, GateEvent } from '@codedock/hooks';
import type { gate, Port } from '@codedock/proto';
import { interpretReply, type SentQuestion } from '../ports/interpret-reply.js';
import type { PortGates } from '../ports/port-table.js';
import { chainFailure, couldNotAsk, type DecisionContext, decisions } from './decisions.js';

/** What the answer of a chain means to the gate, and to the plugins' shared bag. */
export interface JudgedAnswer<P extends Port> {
  readonly decision: GateDecision<PortGates[P]> | CouldNotAsk;
  readonly patch?: ScratchpadPatch;
}

/**
 * Reads the answer of a plugin chain as the hooks over the wire do, for callers that have the chain in their own process.
 * `sent` is the question as it was put, with its chain id.
 */
export function decisionOfAnswer<P extends Port>(
  port: P,
  sent: SentQuestion,
  answer: gate.GateAnswer,
  event: GateEvent<PortGates[P]>,
  context: DecisionContext,
): JudgedAnswer<P> {
  const { envelope, failure, askReasons: asks, outcomes } = answer;
  if (failure !== undefined) return { decision: chainFailure(port, failure) };
  if (envelope === undefined)
    return { decision: couldNotAsk({ outcome: 'invalid', reason: 'The answer has no envelope.' }) };
  const reply = interpretReply(port, sent, envelope, Number.MAX_SAFE_INTEGER);
  if (reply.invalid !== undefined)
    return { decision: couldNotAsk({ outcome: reply.outcome, reason: `The answer is invalid: ${reply.invalid}.` }) };
  const decision = decisions[port]({ kind: 'answered', reply, asks, outcomes }, event, context);
  return { decision, ...(reply.patch === undefined ? {} : { patch: reply.patch }) };
}
