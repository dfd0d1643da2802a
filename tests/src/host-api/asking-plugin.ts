import { type CallContext, defineTool, HostCallError, type JsonValue, serve } from '@codedock/plugin-sdk';

/** What the plugin is told to ask of the host. */
interface Asking {
  readonly method: string;
  readonly session?: string;
  readonly [argument: string]: unknown;
}

const text = (value: unknown) => String(value ?? '');

/** Calls the host as told; answers its answer, or the code and text of its refusal. */
async function ask(call: CallContext, told: Asking): Promise<{ [member: string]: JsonValue }> {
  const { host } = call;
  const of = told.session === undefined ? call : { sessionId: told.session };
  try {
    switch (told.method) {
      case 'complete':
        return { text: await host.complete(of, { prompt: text(told['prompt']), text: text(told['text']) }) };
      case 'active':
        return { names: [...(await host.tools.active(of))] };
      case 'setActive':
        await host.tools.setActive(of, told['names'] as string[]);
        return { done: true };
      case 'systemPrompt':
        return { text: await host.systemPrompt(of) };
      case 'models':
        return { models: [...(await host.models(of))] };
      case 'setting':
        return { value: (await host.settings.get(of, text(told['key']))) ?? null };
      case 'setSetting':
        await host.settings.set(of, text(told['key']), told['value'] as JsonValue);
        return { done: true };
      case 'secret':
        return { value: (await host.secrets.get(of, text(told['key']))) ?? null };
      case 'setSecret':
        await host.secrets.set(of, text(told['key']), text(told['value']));
        return { done: true };
      case 'emit':
        await host.emit(of, text(told['event']), { said: text(told['said']) });
        return { done: true };
      case 'notice':
        await host.appendNotice(of, text(told['text']));
        return { done: true };
      default:
        throw new Error(`nothing is known about ${told.method}`);
    }
  } catch (error) {
    if (error instanceof HostCallError) return { code: error.code, error: error.message };
    throw error;
  }
}

serve({
  name: 'asker',
  version: '1.0.0',
  async onAgentInput(input) {
    if (!input.content.startsWith('ask:')) return undefined;
    return input.block(JSON.stringify(await ask(input, JSON.parse(input.content.slice(4)) as Asking)));
  },
  onAgentPreStep: (input) => input.reply({ systemPrompt: `${input.systemPrompt} As the asker says.` }),
  onAgentRequest: () => undefined,
  tools: [
    defineTool({
      name: 'ask_host',
      description: 'Asks the host.',
      parameters: { type: 'object' },
      effect: 'pure',
      execute: (args, call) => ask(call, args as unknown as Asking),
    }),
    defineTool({
      name: 'idle',
      description: 'Does nothing.',
      parameters: { type: 'object' },
      effect: 'pure',
      execute: () => 'idle',
    }),
  ],
});
