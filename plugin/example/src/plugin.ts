import { definePlugin } from '@codedock/plugin-sdk';

/**
 * The plugin. It has no handler, so it subscribes to nothing, is never asked and changes nothing: installed as it is, it
 * only shows that plugins load. Copy the folder, rename it (folder, package.json, `name` below) and add what you need.
 * A handler that is present is a subscription; there is no other list to keep.
 */
export const plugin = definePlugin({
  name: 'example',
  version: '0.1.0',

  // Runs once, before the plugin is asked anything. Keep it short: the host waits 10 s for the whole start.
  // bootstrap(host) {},

  // agent/input: a user's message, before anything is written because of it.
  // onAgentInput: (input) => (input.content.trim() === '' ? input.block('the message is empty') : input.reply()),

  // agent/pre-step: once per run. Hidden messages reach the model and nobody else.
  // onAgentPreStep: (input) => input.reply({ hidden: [...input.hidden, hiddenText('Answer in one paragraph.')] }),

  // agent/request: before every model call; what changes here serves that call only.
  // onAgentRequest: (input) => input.reply({ messages: input.messages.slice(-50) }),

  // llm/stream: the HTTP request to the model provider. Credentials are never part of it.
  // onLlmStream: (input) => input.reply({ headers: { 'x-team': input.principal.tenant ?? '' } }),

  // tools/pre-execute: before a tool call. Also deny(reason), skip(result), abort(reason).
  // onToolPreExecute: (input) => (input.call.name === 'deploy' ? input.askApproval('deploys to production') : input.reply()),

  // tools/post-execute: the result of a call, before it is stored and before the model sees it.
  // onToolPostExecute: (input) => (input.result.success ? input.reply() : input.reply({ error: 'it failed' })),

  // Facts, by event name, after they happened. Nothing waits for these.
  // onLedgerNotify: { 'run.completed': (notice) => log.info('a run has ended', { run: notice.runId }) },

  // Tools the model can call. `parameters` takes a zod schema as well.
  // tools: [
  //   defineTool({
  //     name: 'dice',
  //     description: 'Rolls a die.',
  //     parameters: { type: 'object', properties: { sides: { type: 'integer', minimum: 2 } }, required: ['sides'] },
  //     effect: 'pure',
  //     execute: ({ sides }) => 1 + Math.floor(Math.random() * Number(sides)),
  //   }),
  // ],
});
