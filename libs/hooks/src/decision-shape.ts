import { isJsonObject, type JsonValue } from '@codedock/domain';
import type { GateDecision, GateName } from './gates.js';
import { policyOf } from './policy.js';

type Check = (value: unknown) => boolean;
type Shape = Readonly<Record<string, Check>>;

const text: Check = (value) => typeof value === 'string';
const truth: Check = (value) => typeof value === 'boolean';
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

const json: Check = (value) => isJson(value, 0);
// Deeper than anything that came through a reader of foreign JSON (64): here it only stops cycles.
const DEEPEST = 512;
function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth > DEEPEST) return false;
  return (Array.isArray(value) ? value : Object.values(value)).every((child) => isJson(child, depth + 1));
}

const ROLES: readonly unknown[] = ['user', 'assistant', 'tool', 'system', 'developer'];
const messageShape: Check = (value) =>
  isJsonObject(value) &&
  text(value['id']) &&
  ROLES.includes(value['role']) &&
  isJsonObject(value['content']) &&
  (text(value['content']['text']) || (text(value['content']['callId']) && json(value['content']['output']))) &&
  optional(listOf(toolCallShape))(value['toolCalls']);
const toolCallShape: Check = (value) =>
  isJsonObject(value) && text(value['id']) && text(value['name']) && json(value['arguments']);
const headers: Check = (value) => isJsonObject(value) && Object.values(value).every(text);
const reasonShape: Check = (value) => isJsonObject(value) && text(value['by']) && text(value['reason']);

const because: Shape = { reason: text, by: optional(text) };
const FAILURE_CODES: readonly unknown[] = ['gate_timeout', 'gate_unavailable'];

const SHAPES: { readonly [G in GateName]: Readonly<Record<string, Shape>> } = {
  beforeInput: {
    continue: {},
    transform: { content: optional(text), mode: optional(text) },
    handled: { by: optional(text) },
    block: because,
  },
  beforeRunStart: {
    continue: { systemPrompt: optional(text), hidden: optional(listOf(messageShape)) },
    block: because,
  },
  onLoop: { continue: {}, stop: because },
  transformContext: {
    reply: { systemPrompt: optional(text), messages: optional(listOf(messageShape)) },
    stop: because,
  },
  beforeProviderHeaders: { reply: { headers: optional(headers) } },
  beforeProviderRequest: { reply: { headers: optional(headers), body: optional(text) } },
  afterProviderResponse: {},
  afterModelCall: {
    continue: { message: optional(messageShape) },
    stop: { ...because, message: optional(messageShape) },
  },
  beforeToolCall: {
    proceed: { arguments: optional(json) },
    block: because,
    skip: { result: json, by: optional(text) },
    ask: { reasons: listOf(reasonShape), arguments: optional(json) },
    abort: because,
  },
  afterToolCall: {
    reply: { output: optional(json), error: (value) => value == null || text(value), success: optional(truth) },
  },
};
const COULD_NOT_ASK: Shape = { code: (value) => FAILURE_CODES.includes(value), reason: text, by: optional(text) };

/**
 * True when a value is a well-formed decision of that gate: a known kind whose fields have their types. Total: a value
 * whose getters throw is no decision. `could_not_ask` is one wherever a remote hook may stand.
 */
export function isDecision<G extends GateName>(gate: G, value: unknown): value is GateDecision<G> {
  try {
    return policyOf(gate).class === 'observe' ? true : matches(gate, value);
  } catch {
    return false;
  }
}

/** True when a value has a kind of that gate; its fields are not looked at. For hooks whose types the compiler has checked. */
export function isKnownKind(gate: GateName, value: unknown): boolean {
  const policy = policyOf(gate);
  if (policy.class === 'observe') return true;
  if (!isJsonObject(value) || typeof value['kind'] !== 'string') return false;
  return policy.decisions.includes(value['kind']) || (policy.port !== undefined && value['kind'] === 'could_not_ask');
}

/** A decision that a remote hook may give: what `isDecision` says, less the kinds kept for in-process hooks. */
export function isRemoteDecision<G extends GateName>(gate: G, value: unknown): value is GateDecision<G> {
  if (!isDecision(gate, value)) return false;
  return !policyOf(gate).inProcessOnly.includes((value as unknown as { kind: string }).kind);
}

function matches(gate: GateName, value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  const { kind } = value;
  if (typeof kind !== 'string') return false;
  const shapes = SHAPES[gate];
  const closed = kind === 'could_not_ask' && policyOf(gate).port !== undefined;
  const shape = closed ? COULD_NOT_ASK : Object.hasOwn(shapes, kind) ? shapes[kind] : undefined;
  return shape !== undefined && Object.entries(shape).every(([field, check]) => check(readField(value, field)));
}

function readField(value: Readonly<Record<string, JsonValue>>, field: string): unknown {
  return value[field];
}
