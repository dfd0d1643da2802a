import {
  type HttpHeaders,
  isJsonObject,
  type JsonValue,
  jsonEqual,
  type Message,
  type ToolResult,
} from '@codedock/domain';
import type { GateDecision, GateEvent, GateName } from './gates.js';

/** How one gate's decisions change its event, and how the changes of a whole chain are told as one decision. */
interface Threading<G extends GateName> {
  /** The event that the next hook sees. */
  apply(event: GateEvent<G>, decision: GateDecision<G>): GateEvent<G>;
  /** One decision for the way from the first event to the last; holds only what changed by JSON value. */
  merged(first: GateEvent<G>, last: GateEvent<G>): GateDecision<G>;
}

/** Equality by JSON value of anything whose type is JSON in fact, such as messages. */
export function sameValue(a: unknown, b: unknown): boolean {
  return a === b || jsonEqual(a as JsonValue | undefined, b as JsonValue | undefined);
}

const changed = <K extends string, V>(key: K, first: V, last: V): { readonly [P in K]?: V } =>
  sameValue(first, last) ? {} : ({ [key]: last } as { [P in K]: V });

/** Headers laid over others, by name without regard to case; a missing name stays. */
export function overlaidHeaders(under: HttpHeaders, over: HttpHeaders): HttpHeaders {
  const lowered = Object.entries(over).map(([name, value]) => [name.toLowerCase(), value] as const);
  return { ...under, ...Object.fromEntries(lowered) };
}

/** A result with a reply laid over it, field by field: absent keeps, null replaces (of `error`: removes). */
export function overlaidResult(result: ToolResult, reply: GateDecision<'afterToolCall'>): ToolResult {
  if (reply.kind !== 'reply') return result;
  const error = reply.error === undefined ? result.error : (reply.error ?? undefined);
  return {
    success: reply.success ?? result.success,
    output: reply.output === undefined ? result.output : reply.output,
    ...(error === undefined ? {} : { error }),
  };
}

const NOTHING_CHANGES = {
  apply: <E>(event: E): E => event,
};

export const THREADINGS: { readonly [G in GateName]: Threading<G> } = {
  beforeInput: {
    apply: (event, decision) =>
      decision.kind === 'transform'
        ? {
            ...event,
            ...(decision.content === undefined ? {} : { content: decision.content }),
            ...(decision.mode === undefined ? {} : { mode: decision.mode }),
          }
        : event,
    merged(first, last) {
      const mode = last.mode === undefined ? {} : changed('mode', first.mode ?? '', last.mode);
      const changes = { ...changed('content', first.content, last.content), ...mode };
      return Object.keys(changes).length === 0 ? { kind: 'continue' } : { kind: 'transform', ...changes };
    },
  },
  beforeRunStart: {
    apply: (event, decision) =>
      decision.kind === 'continue'
        ? { systemPrompt: decision.systemPrompt ?? event.systemPrompt, hidden: decision.hidden ?? event.hidden }
        : event,
    merged: (first, last) => ({
      kind: 'continue',
      ...changed('systemPrompt', first.systemPrompt, last.systemPrompt),
      ...changed('hidden', first.hidden, last.hidden),
    }),
  },
  onLoop: { ...NOTHING_CHANGES, merged: () => ({ kind: 'continue' }) },
  transformContext: {
    apply: (event, decision) =>
      decision.kind === 'reply'
        ? { systemPrompt: decision.systemPrompt ?? event.systemPrompt, messages: decision.messages ?? event.messages }
        : event,
    merged: (first, last) => ({
      kind: 'reply',
      ...changed('systemPrompt', first.systemPrompt, last.systemPrompt),
      ...changed<'messages', readonly Message[]>('messages', first.messages, last.messages),
    }),
  },
  beforeProviderHeaders: {
    apply: (event, decision) => ({ headers: decision.headers ?? event.headers }),
    merged: (first, last) => ({ kind: 'reply', ...changed('headers', first.headers, last.headers) }),
  },
  beforeProviderRequest: {
    apply: (event, decision) =>
      decision.kind === 'reply'
        ? { headers: overlaidHeaders(event.headers, decision.headers ?? {}), body: decision.body ?? event.body }
        : event,
    merged(first, last) {
      const set = Object.entries(last.headers).filter(([name, value]) => first.headers[name] !== value);
      return {
        kind: 'reply',
        ...(set.length === 0 ? {} : { headers: Object.fromEntries(set) }),
        ...changed('body', first.body, last.body),
      };
    },
  },
  afterProviderResponse: { ...NOTHING_CHANGES, merged: () => undefined },
  afterModelCall: {
    apply: (event, decision) => (decision.message === undefined ? event : { ...event, message: decision.message }),
    merged: (first, last) => ({ kind: 'continue', ...changed('message', first.message, last.message) }),
  },
  beforeToolCall: {
    apply: (event, decision) =>
      (decision.kind === 'proceed' || decision.kind === 'ask') && decision.arguments !== undefined
        ? { ...event, call: { ...event.call, arguments: decision.arguments } }
        : event,
    merged: (first, last) => ({ kind: 'proceed', ...changed('arguments', first.call.arguments, last.call.arguments) }),
  },
  afterToolCall: {
    apply: (event, decision) => ({ ...event, result: overlaidResult(event.result, decision) }),
    merged: (first, last) => ({
      kind: 'reply',
      ...changed('output', first.result.output, last.result.output),
      ...changed<'error', string | null>('error', first.result.error ?? null, last.result.error ?? null),
      ...changed('success', first.result.success, last.result.success),
    }),
  },
};

/** True for a decision with one of the kinds. */
export function hasKind(decision: unknown, kinds: readonly string[]): boolean {
  return isJsonObject(decision) && typeof decision['kind'] === 'string' && kinds.includes(decision['kind']);
}
