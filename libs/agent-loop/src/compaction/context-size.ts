import { type JsonValue, type MeasuredContext, type Message, type ToolDefinition, textOf } from '@codedock/domain';

/** How large a part of a context is. Tokens are an estimate: a quarter of the UTF-8 bytes, and four for each message. */
export interface ContextSize {
  readonly tokens: number;
  /** Bytes of its JSON. */
  readonly bytes: number;
}

const BYTES_PER_TOKEN = 4;
const TOKENS_PER_MESSAGE = 4;
/** A provider that counts more than this many times the estimate is not believed beyond it. */
const LARGEST_SCALE = 4;

/** Messages never change, and a history is measured before every model call. */
const measured = new WeakMap<Message, ContextSize>();

/** Size of one message. */
export function sizeOfMessage(message: Message): ContextSize {
  const known = measured.get(message);
  if (known !== undefined) return known;
  const calls = message.toolCalls === undefined ? '' : JSON.stringify(message.toolCalls);
  const size = {
    tokens: tokensOf(utf8Length(textOf(message)) + utf8Length(calls)) + TOKENS_PER_MESSAGE,
    bytes: utf8Length(JSON.stringify(message)) + 1,
  };
  measured.set(message, size);
  return size;
}

/** Size of messages together. */
export function sizeOfMessages(messages: readonly Message[]): ContextSize {
  return messages.map(sizeOfMessage).reduce(sum, { tokens: 0, bytes: 0 });
}

/** Size of what every model call of a run holds beside its history. */
export function sizeOfFixed(
  systemPrompt: string,
  hidden: readonly Message[],
  tools: readonly ToolDefinition[],
): ContextSize {
  const bytes = utf8Length(JSON.stringify(systemPrompt));
  // Tools are part of the window, but of no gate's payload.
  const toolTokens = tools.length === 0 ? 0 : tokensOf(utf8Length(JSON.stringify(tools as unknown as JsonValue)));
  return sum({ tokens: tokensOf(bytes) + toolTokens, bytes }, sizeOfMessages(hidden));
}

/**
 * By how much the provider counts more than the estimate does, from its own count of the newest reply's context: 1–4.
 * An estimate is only ever corrected upwards, so that a context is rather shortened too early than refused.
 */
export function scaleOf(fixed: ContextSize, history: readonly Message[], counted: MeasuredContext | undefined): number {
  const index = counted === undefined ? -1 : history.findLastIndex(({ id }) => id === counted.messageId);
  if (counted === undefined || index < 0) return 1;
  const estimate = fixed.tokens + sizeOfMessages(history.slice(0, index + 1)).tokens;
  return Math.min(LARGEST_SCALE, Math.max(1, counted.tokens / Math.max(1, estimate)));
}

/** Both together. */
export function sum(a: ContextSize, b: ContextSize): ContextSize {
  return { tokens: a.tokens + b.tokens, bytes: a.bytes + b.bytes };
}

/** True when `size` is within `limit`, in tokens and in bytes. */
export function within(size: ContextSize, limit: ContextSize): boolean {
  return size.tokens <= limit.tokens && size.bytes <= limit.bytes;
}

function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Bytes of a text in UTF-8. */
function utf8Length(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    // Both halves of a surrogate pair count two: four bytes together.
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
