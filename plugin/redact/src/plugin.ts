import {
  type AgentRequest,
  definePlugin,
  type JsonValue,
  type Message,
  type MessageCall,
  type ToolPostExecute,
} from '@codedock/plugin-sdk';
import { redactJson } from './redact-json.js';
import { redactText } from './redact-text.js';

/**
 * Takes secrets out of what a user writes, what a model is sent and what a tool answers, before any of it is stored or
 * leaves the product. Keeps no state. A failure withholds the text rather than letting it pass (plugin.json).
 */
export const plugin = definePlugin({
  name: 'redact',
  version: '0.1.0',
  portFailurePolicy: { 'agent/request': 'closed', 'tools/post-execute': 'closed' },
  onAgentInput: (input) => input.reply({ content: whereChanged(input.content, redactText) }),
  onAgentRequest: (request) => redactRequest(request),
  onToolPostExecute: (done) => redactResult(done),
});

function redactRequest(request: AgentRequest) {
  return request.reply({
    systemPrompt: whereChanged(request.systemPrompt, redactText),
    messages: whereChanged(request.messages, (messages) => mapKeeping(messages, redactMessage)),
  });
}

function redactResult(done: ToolPostExecute) {
  const { output, error } = done.result;
  return done.reply({
    output: whereChanged(output, redactJson),
    error: error === undefined ? undefined : whereChanged(error, redactText),
  });
}

// Ids, roles and times stay: only what people, tools and models write is text.
function redactMessage(message: Message): Message {
  const content = whereChanged(message.content as JsonValue, redactJson) as Message['content'] | undefined;
  const attachments =
    message.attachments && whereChanged(message.attachments, (items) => mapKeeping(items, redactJson));
  const calls = message.tool_calls && whereChanged(message.tool_calls, (items) => mapKeeping(items, redactCall));
  if (content === undefined && attachments === undefined && calls === undefined) return message;
  return {
    ...message,
    ...(content === undefined ? {} : { content }),
    ...(attachments === undefined ? {} : { attachments }),
    ...(calls === undefined ? {} : { tool_calls: calls }),
  };
}

function redactCall(call: MessageCall): MessageCall {
  const args = call.arguments === undefined ? undefined : whereChanged(call.arguments, redactJson);
  return args === undefined ? call : { ...call, arguments: args };
}

/** The redacted value, or nothing where there was nothing to redact, so that a clean text is not even compared. */
function whereChanged<T>(value: T, redact: (value: T) => T): T | undefined {
  const redacted = redact(value);
  return redacted === value ? undefined : redacted;
}

/** The mapped list; the very same list when no item changes. */
function mapKeeping<T>(items: readonly T[], map: (item: T) => T): readonly T[] {
  const mapped = items.map((item) => map(item));
  return mapped.some((item, index) => item !== items[index]) ? mapped : items;
}
