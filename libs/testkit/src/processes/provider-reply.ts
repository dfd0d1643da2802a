/** One tool call that the scripted model asks for. `arguments` is sent as it is, so it may be invalid JSON. */
export interface ScriptedToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** Token counts of one answer. */
export interface ScriptedUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** How far an answer goes before it stops going on. */
export interface Interruption {
  /** Number of text pieces sent before; 0 is right after the headers. */
  readonly afterPieces: number;
  /** `hang`: send nothing more, keep the connection. `reset`: TCP reset. `cut`: end without the closing marker. */
  readonly by: 'hang' | 'reset' | 'cut';
}

/** What the provider answers to one request. */
export type ProviderReply =
  | {
      readonly kind: 'message';
      readonly pieces: readonly string[];
      readonly toolCalls: readonly ScriptedToolCall[];
      readonly usage: ScriptedUsage;
      readonly headers?: Readonly<Record<string, string>>;
      readonly interruption?: Interruption;
      /** Awaited after the first piece: lets a test act in the middle of an answer. */
      readonly holdUntil?: Promise<unknown>;
    }
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly body: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  /** Takes the request and never answers. */
  | { readonly kind: 'hang' }
  /** Resets the connection before any answer. */
  | { readonly kind: 'reset' };

const USAGE: ScriptedUsage = { promptTokens: 10, completionTokens: 5 };

type MessageOptions = Partial<
  Pick<Extract<ProviderReply, { kind: 'message' }>, 'usage' | 'headers' | 'interruption' | 'holdUntil'>
>;

/** An assistant message, streamed in the given pieces. */
export function says(pieces: string | readonly string[], options: MessageOptions = {}): ProviderReply {
  return {
    kind: 'message',
    pieces: typeof pieces === 'string' ? [pieces] : pieces,
    toolCalls: [],
    usage: USAGE,
    ...options,
  };
}

/** An assistant message that asks for tools. Arguments given as a value are written as JSON. */
export function callsTools(
  calls: readonly { readonly id: string; readonly name: string; readonly arguments: unknown }[],
  options: MessageOptions = {},
): ProviderReply {
  const toolCalls = calls.map((call) => ({
    id: call.id,
    name: call.name,
    arguments: typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments),
  }));
  return { kind: 'message', pieces: [], toolCalls, usage: USAGE, ...options };
}

/** An error answer in the provider's shape, e.g. `failsWith(429, { 'retry-after': '1' })`. */
export function failsWith(status: number, headers: Readonly<Record<string, string>> = {}): ProviderReply {
  const body = JSON.stringify({ error: { message: `scripted ${status}`, type: 'scripted', code: null } });
  return { kind: 'status', status, body, headers };
}

/** Takes the request and never answers. */
export function hangs(): ProviderReply {
  return { kind: 'hang' };
}

/** Resets the connection before any answer. */
export function resets(): ProviderReply {
  return { kind: 'reset' };
}
