// The reference of the table: the same behaviour as hooks of this process, without any wire.
import type { GateCall, JsonObject, JsonValue, Message } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import type { Directive } from '@codedock/plugin-host';

/** Name under which the reference decides. */
export const IN_PROCESS = 'in-process';

const by = { by: IN_PROCESS };

/** Hooks that do what the scratchpad tells them to. */
export const inProcessHooks: Hooks = {
  beforeInput(event, call) {
    const { type, reason = '', append, change = {} } = told(call);
    if (type === 'input/handled') return { kind: 'handled', ...by };
    if (type === 'input/blocked') return { kind: 'block', reason, ...by };
    const content = append === undefined ? {} : { content: event.content + append };
    const changes = { ...content, ...change };
    return Object.keys(changes).length === 0 ? { kind: 'continue' } : { kind: 'transform', ...changes };
  },
  beforeRunStart(event, call) {
    const directive = told(call);
    if (directive.type === 'run/blocked') return { kind: 'block', reason: directive.reason ?? '', ...by };
    const hidden = rearranged(event.hidden, directive, call);
    return {
      kind: 'continue',
      ...appended(event.systemPrompt, directive),
      ...(hidden === undefined ? {} : { hidden }),
    };
  },
  transformContext(event, call) {
    const directive = told(call);
    const messages = rearranged(event.messages, directive, call);
    return {
      kind: 'reply',
      ...appended(event.systemPrompt, directive),
      ...(messages === undefined ? {} : { messages }),
    };
  },
  beforeProviderRequest(_event, call) {
    const { headers, body } = (told(call).change ?? {}) as { headers?: Record<string, string>; body?: JsonValue };
    return {
      kind: 'reply',
      ...(headers === undefined ? {} : { headers }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
  },
  beforeToolCall(_event, call) {
    const { type, reason = '', change, skip_result: result } = told(call);
    const changed = change === undefined ? {} : { arguments: change['arguments'] as JsonValue };
    switch (type) {
      case 'tools/denied':
        return { kind: 'block', reason, ...by };
      case 'tools/skipped':
        return { kind: 'skip', result: result ?? 'The call was skipped by a policy.', ...by };
      case 'tools/ask':
        return { kind: 'ask', reasons: [{ by: IN_PROCESS, reason }], ...changed };
      case 'run/aborted':
        return { kind: 'abort', reason, ...by };
      default:
        return { kind: 'proceed', ...changed };
    }
  },
  afterToolCall(_event, call) {
    const { Output: output, Success: success, Error: error } = (told(call).change ?? {}) as ResultOnTheWire;
    return {
      kind: 'reply',
      ...(output === undefined ? {} : { output }),
      ...(success === undefined ? {} : { success }),
      ...(error === undefined ? {} : { error: error === '' ? null : error }),
    };
  },
};

interface ResultOnTheWire {
  readonly Output?: JsonValue;
  readonly Success?: boolean;
  readonly Error?: string;
}

function told(call: GateCall): Directive {
  const directive = (call.scratchpad['directive'] ?? {}) as Directive;
  const { set, delete: deleted = [] } = directive;
  if (set !== undefined || deleted.length > 0) {
    call.merge({ set: set ?? {}, deleted: deleted });
  }
  return directive;
}

function appended(text: string, { append }: Directive): { systemPrompt?: string } {
  return append === undefined ? {} : { systemPrompt: text + append };
}

function rearranged(messages: readonly Message[], directive: Directive, call: GateCall): Message[] | undefined {
  const { add = [], drop = 0 } = directive;
  if (add.length === 0 && drop === 0) return undefined;
  return [...messages.slice(drop), ...add.map((message) => made(message, call))];
}

function made(wire: JsonObject, call: GateCall): Message {
  const { sessionId, runId } = call.site;
  return {
    id: String(wire['id'] ?? 'made'),
    sessionId,
    ...(runId === undefined ? {} : { runId }),
    role: wire['role'] as Message['role'],
    content: wire['content'] as { text: string },
    eventSeq: 0,
    createdAt: String(wire['created_at'] ?? new Date().toISOString()),
  };
}
