import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  jsonEqual,
  type Message,
  type MessageRole,
  type MessageToolCall,
  wellFormedJson,
} from '@codedock/domain';
import { InvalidAnswer } from '../ports/invalid-answer.js';
import { objectAt, optionalArray, optionalString } from './fields.js';

/** A message in its wire shape, validated: required members have their types, absent ones are left out. */
export type WireMessage = JsonObject;

/** What Go's encoder writes for a time that was never set. */
const ZERO_TIME = '0001-01-01T00:00:00';

const ROLES: ReadonlySet<string> = new Set<MessageRole>(['user', 'assistant', 'tool', 'system', 'developer']);

/** A message as plugins see it. */
export function messageToWire(message: Message): WireMessage {
  const wire: WireMessage = { id: message.id, session_id: message.sessionId };
  if (message.runId !== undefined) wire['run_id'] = message.runId;
  if (message.turnId !== undefined) wire['turn_id'] = message.turnId;
  wire['role'] = message.role;
  wire['content'] =
    'text' in message.content
      ? { text: message.content.text }
      : message.content.output === null
        ? { call_id: message.content.callId }
        : { call_id: message.content.callId, output: message.content.output };
  if (message.attachments !== undefined && message.attachments.length > 0)
    wire['attachments'] = [...message.attachments];
  if (message.toolCalls !== undefined && message.toolCalls.length > 0) {
    wire['tool_calls'] = message.toolCalls.map((call) => callToWire(call));
  }
  wire['event_seq'] = message.eventSeq;
  wire['created_at'] = message.createdAt;
  return wire;
}

const texts = new WeakMap<Message, string>();

/**
 * JSON text of a message as plugins see it. Messages never change, and each is sent with every model call of its run:
 * its text is made once.
 */
export function messageText(message: Message): string {
  let text = texts.get(message);
  if (text === undefined) {
    text = JSON.stringify(messageToWire(message));
    texts.set(message, text);
  }
  return text;
}

/** A tool call as plugins see it; its id is its idempotency key. */
export function callToWire(
  call: { readonly id: string; readonly name: string; readonly arguments: JsonValue | undefined },
  attempt?: number,
): JsonObject {
  const wire: JsonObject = { id: call.id, name: call.name };
  if (call.arguments !== undefined && call.arguments !== null) wire['arguments'] = call.arguments;
  if (attempt !== undefined) wire['attempt'] = attempt;
  wire['idempotency_key'] = call.id;
  return wire;
}

/**
 * The answered list in which every message that is unchanged by value is the very one that was sent; undefined when the
 * whole list is unchanged. @throws InvalidAnswer
 */
export function changedMessages(
  sent: readonly JsonValue[],
  answered: readonly JsonValue[],
  path: string,
): readonly WireMessage[] | undefined {
  const sentById = new Map<string, JsonObject>();
  for (const message of sent) if (isJsonObject(message)) sentById.set(String(message['id']), message);
  const messages = answered.map((value, index) => {
    const here = sent[index];
    if (here !== undefined && jsonEqual(here, value)) return here as WireMessage;
    const original = sentById.get(String(isJsonObject(value) ? value['id'] : undefined));
    const normal = normalMessage(withEmptyText(value, original), `${path}[${index}]`);
    // A plugin that re-encodes through typed structures may write an instant or an empty list differently.
    return original !== undefined && jsonEqual(comparable(normal), comparable(normalMessage(original, path)))
      ? original
      : normal;
  });
  const unchanged = messages.length === sent.length && messages.every((message, index) => message === sent[index]);
  return unchanged ? undefined : messages;
}

// Typed plugins leave an empty text out, as the one beside an assistant's tool calls.
function withEmptyText(value: JsonValue, original: JsonObject | undefined): JsonValue {
  if (!isJsonObject(value) || original === undefined) return value;
  return jsonEqual(value['content'], {}) && jsonEqual(original['content'], { text: '' })
    ? { ...value, content: { text: '' } }
    : value;
}

function comparable(normal: WireMessage): JsonObject {
  return { ...normal, created_at: Date.parse(normal['created_at'] as string) || 0 };
}

function normalMessage(value: JsonValue, path: string): WireMessage {
  const message = objectAt(value, path);
  const role = message['role'];
  if (typeof role !== 'string' || !ROLES.has(role)) throw new InvalidAnswer(`${path}.role is no role`);
  const normal: WireMessage = {
    id: optionalString(message, 'id', `${path}.id`) ?? '',
    session_id: optionalString(message, 'session_id', `${path}.session_id`) ?? '',
  };
  const runId = optionalString(message, 'run_id', `${path}.run_id`);
  if (runId !== undefined) normal['run_id'] = runId;
  const turnId = optionalString(message, 'turn_id', `${path}.turn_id`);
  if (turnId !== undefined) normal['turn_id'] = turnId;
  normal['role'] = role;
  normal['content'] = normalContent(message['content'], `${path}.content`);
  const attachments = optionalArray(message, 'attachments', `${path}.attachments`);
  if (attachments !== undefined && attachments.length > 0) normal['attachments'] = attachments;
  const calls = optionalArray(message, 'tool_calls', `${path}.tool_calls`);
  if (calls !== undefined && calls.length > 0) {
    normal['tool_calls'] = calls.map((call, index) => normalCall(call, `${path}.tool_calls[${index}]`));
  }
  const seq = message['event_seq'] ?? 0;
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 0) {
    throw new InvalidAnswer(`${path}.event_seq is not a whole number from 0`);
  }
  normal['event_seq'] = seq;
  const written = optionalString(message, 'created_at', `${path}.created_at`) ?? '';
  const createdAt = written.startsWith(ZERO_TIME) ? '' : written;
  if (createdAt !== '' && Number.isNaN(Date.parse(createdAt))) throw new InvalidAnswer(`${path}.created_at is no date`);
  normal['created_at'] = createdAt;
  return normal;
}

function normalContent(value: JsonValue | undefined, path: string): JsonObject {
  const content = objectAt(value, path);
  const callId = optionalString(content, 'call_id', `${path}.call_id`);
  if (callId !== undefined) {
    const output = content['output'];
    return output === undefined || output === null ? { call_id: callId } : { call_id: callId, output };
  }
  const text = content['text'];
  if (typeof text !== 'string') throw new InvalidAnswer(`${path} has neither a text nor a call_id`);
  return { text };
}

function normalCall(value: JsonValue, path: string): JsonObject {
  const call = objectAt(value, path);
  const id = optionalString(call, 'id', `${path}.id`);
  const name = optionalString(call, 'name', `${path}.name`);
  if (id === undefined) throw new InvalidAnswer(`${path}.id is missing`);
  if (name === undefined) throw new InvalidAnswer(`${path}.name is missing`);
  const normal: JsonObject = { id, name };
  const args = call['arguments'];
  if (args !== undefined && args !== null) normal['arguments'] = args;
  const attempt = call['attempt'] ?? 0;
  if (typeof attempt !== 'number') throw new InvalidAnswer(`${path}.attempt is not a number`);
  if (attempt !== 0) normal['attempt'] = attempt;
  normal['idempotency_key'] = optionalString(call, 'idempotency_key', `${path}.idempotency_key`) ?? id;
  return normal;
}

/** What a message that a plugin made lacks. */
export interface MessageDefaults {
  readonly sessionId: string;
  readonly runId?: string;
  readonly newId: () => string;
  /** RFC 3339, UTC. */
  readonly now: () => string;
}

/**
 * Wire messages as messages of the product. One that equals an original is that original; others get the original's
 * provider call ids back (they never travel) and defaults for what they lack.
 */
export function messagesFromWire(
  wire: readonly WireMessage[],
  originals: readonly Message[],
  defaults: MessageDefaults,
): Message[] {
  const byId = new Map(originals.map((message) => [message.id, message]));
  const providerIds = new Map<string, string>();
  for (const message of originals) {
    for (const call of message.toolCalls ?? []) {
      if (call.providerCallId !== undefined) providerIds.set(call.id, call.providerCallId);
    }
  }
  return wire.map((message) => {
    const original = byId.get(String(message['id']));
    if (original !== undefined && jsonEqual(messageToWire(original), message)) return original;
    return messageFromWire(message, providerIds, defaults);
  });
}

function messageFromWire(
  wire: WireMessage,
  providerIds: ReadonlyMap<string, string>,
  defaults: MessageDefaults,
): Message {
  // Hidden messages are checkpointed: text that no store takes is repaired here.
  const message = wellFormedJson(wire);
  const content = message['content'] as JsonObject;
  const runId = (message['run_id'] as string | undefined) ?? defaults.runId;
  const turnId = message['turn_id'] as string | undefined;
  const calls = message['tool_calls'] as JsonObject[] | undefined;
  const attachments = message['attachments'] as JsonValue[] | undefined;
  return {
    id: (message['id'] as string) || defaults.newId(),
    sessionId: (message['session_id'] as string) || defaults.sessionId,
    ...(runId === undefined ? {} : { runId }),
    ...(turnId === undefined ? {} : { turnId }),
    role: message['role'] as MessageRole,
    content:
      'call_id' in content
        ? { callId: content['call_id'] as string, output: content['output'] ?? null }
        : { text: content['text'] as string },
    ...(calls === undefined ? {} : { toolCalls: calls.map((call) => callFromWire(call, providerIds)) }),
    ...(attachments === undefined ? {} : { attachments }),
    eventSeq: message['event_seq'] as number,
    createdAt: message['created_at'] === '' ? defaults.now() : new Date(message['created_at'] as string).toISOString(),
  };
}

function callFromWire(call: JsonObject, providerIds: ReadonlyMap<string, string>): MessageToolCall {
  const id = call['id'] as string;
  const providerCallId = providerIds.get(id);
  return {
    id,
    name: call['name'] as string,
    arguments: call['arguments'] ?? null,
    ...(providerCallId === undefined ? {} : { providerCallId }),
  };
}
