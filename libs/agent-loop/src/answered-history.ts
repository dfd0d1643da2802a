import { type Message, type MessageToolCall, toolMessageOf } from '@codedock/domain';

/**
 * The history with the result of every call right behind the message that asked for it, in the order of the calls, as
 * providers demand. A run that ended in mid-call left no result: the model is told that instead.
 */
export function answeredHistory(messages: readonly Message[]): readonly Message[] {
  const asked = new Set(messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id)));
  if (asked.size === 0) return messages;
  const results = new Map<string, Message>();
  for (const message of messages) {
    if ('callId' in message.content && asked.has(message.content.callId)) results.set(message.content.callId, message);
  }
  return messages.flatMap((message) => {
    if ('callId' in message.content && asked.has(message.content.callId)) return [];
    const calls = message.toolCalls ?? [];
    return [message, ...calls.map((call) => results.get(call.id) ?? withoutResult(message, call))];
  });
}

function withoutResult(message: Message, { id, name }: MessageToolCall): Message {
  const text = `The run ended before ${name} had a result; whether it took effect is not known.`;
  const { sessionId, runId = '', turnId = '', createdAt } = message;
  const result = { success: false, output: text, error: text };
  return toolMessageOf({ id, turnId }, result, { sessionId, runId, createdAt });
}
