import {
  type AgentRequest,
  definePlugin,
  type JsonValue,
  type Message,
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
  onAgentInput: (input) => input.reply({ content: redactText(input.content) }),
  onAgentRequest: (request) => redactRequest(request),
  onToolPostExecute: (done) => redactResult(done),
});

function redactRequest(request: AgentRequest) {
  return request.reply({
    systemPrompt: redactText(request.systemPrompt),
    messages: request.messages.map(redactMessage),
  });
}

// Ids, roles and times stay: only what people, tools and models write is text.
function redactMessage(message: Message): Message {
  const { content, attachments, tool_calls: calls } = message;
  return {
    ...message,
    content: redactJson(content as JsonValue) as Message['content'],
    ...(attachments === undefined ? {} : { attachments: redactJson(attachments) }),
    ...(calls === undefined
      ? {}
      : {
          tool_calls: calls.map((call) =>
            call.arguments === undefined ? call : { ...call, arguments: redactJson(call.arguments) },
          ),
        }),
  };
}

function redactResult(done: ToolPostExecute) {
  const { output, error } = done.result;
  return done.reply({ output: redactJson(output), ...(error === undefined ? {} : { error: redactText(error) }) });
}
