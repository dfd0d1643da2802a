import type {
  JsonValue,
  Model,
  ModelChunk,
  ModelGates,
  ModelReply,
  ModelRequest,
  ProposedCall,
} from '@codedock/domain';

/** One model call of a script: a reply, chunks, an error to throw, or the whole stream. */
export type ModelStep =
  | ModelReply
  | readonly ModelChunk[]
  | Error
  | ((request: ModelRequest, gates: ModelGates, signal: AbortSignal) => AsyncIterable<ModelChunk>);

/** A call as a model proposes it; arguments given as text are not JSON. */
export function call(name: string, args: JsonValue | { raw: string } = {}): ProposedCall {
  const providerCallId = `provider-${name}`;
  if (typeof args === 'object' && args !== null && 'raw' in args && typeof args.raw === 'string') {
    return { providerCallId, name, arguments: undefined, rawArguments: args.raw };
  }
  return { providerCallId, name, arguments: args as JsonValue, rawArguments: JSON.stringify(args) };
}

/** A reply with this text and these calls; it costs 10 + 5 tokens. */
export function say(text: string, ...toolCalls: ProposedCall[]): ModelReply {
  const finishReason = toolCalls.length === 0 ? 'stop' : 'tool_calls';
  return { text, toolCalls, usage: { inputTokens: 10, outputTokens: 5 }, finishReason };
}

/** A model that answers by its script and keeps what it was asked. */
export class ScriptedModel implements Model {
  readonly requests: ModelRequest[] = [];

  constructor(
    private readonly script: readonly ModelStep[],
    private readonly journal: string[],
  ) {}

  stream(request: ModelRequest, gates: ModelGates, signal: AbortSignal): AsyncIterable<ModelChunk> {
    const step = this.script[this.requests.length];
    this.requests.push(request);
    this.journal.push(`model ${this.requests.length}`);
    if (typeof step === 'function') return step(request, gates, signal);
    return played(step ?? new Error('the script is over'));
  }
}

async function* played(step: Exclude<ModelStep, (...args: never[]) => unknown>): AsyncIterable<ModelChunk> {
  if (step instanceof Error) throw step;
  if ('toolCalls' in step) {
    if (step.text !== '') yield { kind: 'delta', text: step.text };
    yield { kind: 'completed', reply: step };
    return;
  }
  yield* step;
}
