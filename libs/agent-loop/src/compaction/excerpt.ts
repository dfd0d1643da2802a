import { type JsonValue, type Message, type MessageToolCall, textOf, wellFormedText } from '@codedock/domain';
import { type ContextSize, sizeOfMessage, within } from './context-size.js';

/** UTF-8 takes at most three bytes for a UTF-16 unit, and JSON at most six for it. */
const UNITS_PER_TOKEN = 4 / 3;
const BYTES_PER_UNIT = 6;

/**
 * A message whose texts are cut so that it takes about `limit`: only what a summary is made from, never what is stored.
 * Its role, its calls and the call it answers stay.
 */
export function excerpt(message: Message, limit: ContextSize): Message {
  if (within(sizeOfMessage(message), limit)) return message;
  const parts = 1 + (message.toolCalls?.length ?? 0);
  const units = Math.floor(Math.min(limit.tokens * UNITS_PER_TOKEN, limit.bytes / BYTES_PER_UNIT) / parts / 2);
  const { attachments: _, ...rest } = message;
  const text = cut(textOf(message), units);
  return {
    ...rest,
    content: 'callId' in message.content ? { callId: message.content.callId, output: text } : { text },
    ...(message.toolCalls === undefined
      ? {}
      : { toolCalls: message.toolCalls.map((call) => ({ ...call, arguments: cutArguments(call, units) })) }),
  };
}

function cutArguments({ arguments: args }: MessageToolCall, units: number): JsonValue {
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  return text.length <= units ? args : { excerpt: cut(text, units) };
}

function cut(text: string, units: number): string {
  if (text.length <= units) return text;
  return `${wellFormedText(text.slice(0, units))}… [${text.length - units} characters left out]`;
}
