import { isJsonObject, type JsonObject, type Message, type ModelRequest, textOf } from '@codedock/domain';
import type OpenAI from 'openai';

type ChatBody = OpenAI.ChatCompletionCreateParamsStreaming;
type ChatMessage = OpenAI.ChatCompletionMessageParam;

/** Options that are ours or that the loop decides; everything else of a profile's `options` goes into the body. */
const RESERVED: ReadonlySet<string> = new Set([
  'baseUrl',
  'model',
  'messages',
  'tools',
  'stream',
  'stream_options',
  'n',
]);

/** The body of a streaming chat completion for a model call. */
export function chatBody(request: ModelRequest): ChatBody {
  const { model, tools, systemPrompt, messages } = request;
  const system: ChatMessage[] = systemPrompt === '' ? [] : [{ role: 'system', content: systemPrompt }];
  return {
    ...passedOptions(model.options),
    model: model.name,
    messages: [...system, ...chatMessages(messages)],
    ...(tools.length > 0 && {
      tools: tools.map((tool) => ({
        type: 'function' as const,
        function: { name: tool.name, description: tool.description, parameters: tool.parameters },
      })),
    }),
    ...(model.maxOutputTokens !== undefined && { max_completion_tokens: model.maxOutputTokens }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function passedOptions(options: JsonObject | undefined): JsonObject {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([name]) => !RESERVED.has(name)));
}

function chatMessages(messages: readonly Message[]): ChatMessage[] {
  // The provider knows its calls by its own ids; results are stored under ours.
  const providerIds = new Map<string, string>();
  for (const message of messages) {
    for (const call of message.toolCalls ?? []) providerIds.set(call.id, call.providerCallId ?? call.id);
  }
  return messages.map((message) => chatMessage(message, providerIds));
}

function chatMessage(message: Message, providerIds: ReadonlyMap<string, string>): ChatMessage {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: textOf(message) };
    // Compatible endpoints rarely know `developer`; OpenAI itself reads `system` as such.
    case 'system':
    case 'developer':
      return { role: 'system', content: textOf(message) };
    case 'tool': {
      const callId = 'callId' in message.content ? message.content.callId : message.id;
      return { role: 'tool', tool_call_id: providerIds.get(callId) ?? callId, content: textOf(message) };
    }
    case 'assistant': {
      const calls = message.toolCalls ?? [];
      const text = textOf(message);
      if (calls.length === 0) return { role: 'assistant', content: text };
      return {
        role: 'assistant',
        content: text === '' ? null : text,
        tool_calls: calls.map((call) => ({
          id: call.providerCallId ?? call.id,
          type: 'function' as const,
          function: {
            name: call.name,
            // Arguments that never were JSON are stored as text, inside which the provider sees what it sent.
            arguments: typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments),
          },
        })),
      };
    }
  }
}

/** A profile's own base URL, when its options name one. */
export function baseUrlOf(request: ModelRequest): string | undefined {
  const { options } = request.model;
  const url = isJsonObject(options) ? options['baseUrl'] : undefined;
  return typeof url === 'string' ? url : undefined;
}
