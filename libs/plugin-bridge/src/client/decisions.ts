import { randomUUID } from 'node:crypto';
import type { Clock } from '@codedock/domain';
import {
  failureCodeOf,
  type GateFailureCode,
  type GateSite,
  type Message,
  wellFormedJson,
  wellFormedText,
} from '@codedock/domain';
import type { CouldNotAsk, GateDecision, GateEvent } from '@codedock/hooks';
import type { gate, Port } from '@codedock/proto';
import { type MessageDefaults, messagesFromWire, type WireMessage } from '../mapping/message-wire.js';
import type { PortGates } from '../ports/port-table.js';
import type { Answered } from './gate-asker.js';
import type { WholeFailure } from './standing.js';

/** What deciding needs beside the answer. */
export interface DecisionContext {
  readonly site: GateSite;
  readonly clock: Pick<Clock, 'now'>;
}

/** How an answer on a port becomes the decision of its gate. */
export type Decide<P extends Port> = (
  answered: Answered<P>,
  event: GateEvent<PortGates[P]>,
  context: DecisionContext,
) => GateDecision<PortGates[P]>;

const CONTINUE = Object.freeze({ kind: 'continue' } as const);
const PROCEED = Object.freeze({ kind: 'proceed' } as const);
const REPLY = Object.freeze({ kind: 'reply' } as const);

/** The decision of a gate at which nobody is asked. */
export const UNASKED: { readonly [P in Port]: GateDecision<PortGates[P]> } = {
  'agent/input': CONTINUE,
  'agent/pre-step': CONTINUE,
  'agent/request': REPLY,
  'llm/stream': REPLY,
  'tools/pre-execute': PROCEED,
  'tools/post-execute': REPLY,
};

/** Answers as decisions, by port. */
export const decisions: { readonly [P in Port]: Decide<P> } = {
  'agent/input'(answered) {
    const { reply } = answered;
    if (reply.direction === 'handled') return { kind: 'handled', ...byOf(answered) };
    if (reply.direction === 'block') return blockOf(answered);
    return reply.change === undefined ? CONTINUE : { kind: 'transform', ...reply.change };
  },
  'agent/pre-step'(answered, event, context) {
    const { reply } = answered;
    if (reply.direction === 'block') return blockOf(answered);
    if (reply.change === undefined) return CONTINUE;
    const { systemPrompt, hidden } = reply.change;
    return {
      kind: 'continue',
      ...(systemPrompt === undefined ? {} : { systemPrompt: wellFormedText(systemPrompt) }),
      ...(hidden === undefined ? {} : { hidden: messagesOf(hidden, event.hidden, context) }),
    };
  },
  'agent/request'({ reply }, event, context) {
    if (reply.change === undefined) return REPLY;
    const { systemPrompt, messages } = reply.change;
    return {
      kind: 'reply',
      ...(systemPrompt === undefined ? {} : { systemPrompt }),
      ...(messages === undefined ? {} : { messages: messagesOf(messages, event.messages, context) }),
    };
  },
  'llm/stream'({ reply }) {
    return reply.change === undefined ? REPLY : { kind: 'reply', ...reply.change };
  },
  'tools/pre-execute'(answered) {
    const { reply, asks } = answered;
    if (reply.direction === 'block') return blockOf(answered);
    if (reply.direction === 'abort') return { ...blockOf(answered), kind: 'abort' };
    if (reply.direction === 'skip') {
      return { kind: 'skip', result: wellFormedJson(reply.skipResult ?? null), ...byOf(answered) };
    }
    const args = reply.change?.arguments;
    const changed = args === undefined ? {} : { arguments: wellFormedJson(args) };
    if (reply.direction !== 'ask' && asks.length === 0)
      return args === undefined ? PROCEED : { kind: 'proceed', ...changed };
    return { kind: 'ask', reasons: askReasons(answered), ...changed };
  },
  'tools/post-execute'({ reply }) {
    if (reply.change === undefined) return REPLY;
    const { output, error, success } = reply.change;
    return {
      kind: 'reply',
      ...(output === undefined ? {} : { output: wellFormedJson(output) }),
      ...(error === undefined ? {} : { error: error === null ? null : wellFormedText(error) }),
      ...(success === undefined ? {} : { success }),
    };
  },
};

/** The gate as a whole could not be asked. */
export function couldNotAsk(failure: WholeFailure): CouldNotAsk {
  return {
    kind: 'could_not_ask',
    code: failureCodeOf(failure.outcome) ?? 'gate_unavailable',
    reason: failure.reason,
    ...(failure.by === undefined ? {} : { by: failure.by }),
  };
}

/** A plugin's failure that its policy makes the gate's. */
export function chainFailure(port: Port, failure: gate.Failure): CouldNotAsk {
  const code: GateFailureCode = failure.code === 'gate_timeout' ? 'gate_timeout' : 'gate_unavailable';
  const who = failure.plugin === '' ? 'A plugin' : `The plugin ${failure.plugin}`;
  return {
    kind: 'could_not_ask',
    code,
    reason: `${who} could not be asked on ${port}: ${failure.reason || 'no reason given'}`,
    ...(failure.plugin === '' ? {} : { by: failure.plugin }),
  };
}

function blockOf(answered: Answered<Port>): { kind: 'block'; reason: string; by?: string } {
  const by = byOf(answered);
  return { kind: 'block', reason: answered.reply.reason ?? `Refused by ${by.by ?? 'a plugin'}.`, ...by };
}

// The plugin whose answer decided: the chain ends with it.
function byOf({ outcomes, reply }: Answered<Port>): { by?: string } {
  const by = outcomes.find(({ outcome }) => outcome === reply.outcome)?.plugin;
  return by === undefined || by === '' ? {} : { by };
}

function askReasons({ asks, reply }: Answered<Port>): { by: string; reason: string }[] {
  if (asks.length === 0) return [{ by: 'plugin', reason: reply.reason ?? '' }];
  return asks.map(({ plugin, reason }) => ({ by: plugin, reason }));
}

function messagesOf(wire: readonly WireMessage[], originals: readonly Message[], context: DecisionContext): Message[] {
  const { site, clock } = context;
  const defaults: MessageDefaults = {
    sessionId: site.sessionId,
    ...(site.runId === undefined ? {} : { runId: site.runId }),
    newId: randomUUID,
    now: () => new Date(clock.now()).toISOString(),
  };
  return messagesFromWire(wire, originals, defaults);
}
