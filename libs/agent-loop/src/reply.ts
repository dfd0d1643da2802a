import {
  type JsonValue,
  type Message,
  type MessageToolCall,
  type ModelReply,
  type ProposedCall,
  type ToolCall,
  type Turn,
  textOf,
  wellFormedJson,
  wellFormedText,
} from '@codedock/domain';
import { sameValue } from '@codedock/hooks';
import type { Attempt } from './attempt.js';

/** A model's reply as the message that is about to be stored. */
export interface ReplyMessage {
  readonly message: Message;
  /** True when characters that no store accepts were replaced. */
  readonly repaired: boolean;
}

/** The message of a model's reply: well-formed, with ids for its calls. */
export function messageOf(attempt: Attempt, turn: Turn, reply: ModelReply): ReplyMessage {
  const { snapshot, ports } = attempt;
  const raw: Message = {
    id: ports.ids.next(),
    sessionId: snapshot.sessionId,
    runId: snapshot.runId,
    turnId: turn.id,
    role: 'assistant',
    content: { text: reply.text },
    ...(reply.toolCalls.length === 0
      ? {}
      : { toolCalls: reply.toolCalls.map((call) => proposed(call, ports.ids.next())) }),
    eventSeq: 0,
    createdAt: attempt.timestamp,
  };
  const message = repairedMessage(raw);
  return { message, repaired: message !== raw };
}

/** Arguments that are not JSON stay as the text they were: a string never satisfies a tool's schema. */
function proposed(call: ProposedCall, id: string): MessageToolCall {
  const empty = call.rawArguments.trim() === '' ? {} : call.rawArguments;
  return { id, name: call.name, arguments: call.arguments ?? empty, providerCallId: call.providerCallId };
}

/**
 * What `afterModelCall` made of the message: its text and its calls. Everything that identifies the message is kept, and
 * a call with an id of its own invention gets one of ours.
 */
export function revisedMessage(attempt: Attempt, original: Message, answered: Message | undefined): Message {
  if (answered === undefined || sameValue(original, answered)) return original;
  const known = new Set(original.toolCalls?.map((call) => call.id));
  const calls = (answered.toolCalls ?? []).map((call) => {
    const id = known.delete(call.id) ? call.id : attempt.ports.ids.next();
    return { ...call, id };
  });
  const { toolCalls: _, ...rest } = original;
  return repairedMessage({
    ...rest,
    content: { text: textOf(answered) },
    ...(calls.length === 0 ? {} : { toolCalls: calls }),
  });
}

/** The calls of a reply, as they are before anyone has looked at them. */
export function proposedCalls(attempt: Attempt, turn: Turn, message: Message): ToolCall[] {
  return (message.toolCalls ?? []).map((call, index) => ({
    id: call.id,
    turnId: turn.id,
    index,
    name: call.name,
    arguments: call.arguments,
    ...(call.providerCallId === undefined ? {} : { providerCallId: call.providerCallId }),
    state: 'proposed',
    effect: attempt.ports.tools.lookup(call.name)?.effect ?? 'effectful',
    executions: 0,
  }));
}

function repairedMessage(message: Message): Message {
  const content = { text: wellFormedText(textOf(message)) };
  const toolCalls = message.toolCalls?.map(repairedCall);
  const same =
    content.text === textOf(message) && (toolCalls ?? []).every((call, index) => call === message.toolCalls?.[index]);
  if (same) return message;
  return { ...message, content, ...(toolCalls === undefined ? {} : { toolCalls }) };
}

function repairedCall(call: MessageToolCall): MessageToolCall {
  return wellFormedJson(call as unknown as JsonValue) as unknown as MessageToolCall;
}
