// The plugin of the conformance table in TypeScript: it does what the question's scratchpad tells it to.
import {
  type CallContext,
  defineTool,
  HostCallError,
  type JsonObject,
  type JsonValue,
  log,
  type Message,
  type Scratchpad,
  serve,
} from '@codedock/plugin-sdk';

interface Directive {
  readonly type?: string;
  readonly reason?: string;
  readonly skip_result?: JsonValue;
  readonly change?: JsonObject;
  readonly append?: string;
  readonly add?: readonly Message[];
  readonly drop?: number;
  readonly set?: JsonObject;
  readonly delete?: readonly string[];
  readonly calls?: readonly HostCall[];
  readonly print?: string;
  readonly log?: string;
  readonly hang?: string;
  readonly fail?: string;
  readonly panic?: string;
}

interface HostCall {
  readonly method: string;
  readonly scope?: string;
  readonly name?: string;
  readonly text?: string;
  readonly value?: JsonValue;
  readonly session?: string;
}

interface Question extends CallContext {
  readonly context: Scratchpad;
}

const name = process.env['CODEDOCK_PLUGIN_NAME'] ?? 'typescript';
const codes: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 3,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
};

async function told(input: Question): Promise<Directive> {
  const directive = (input.context.get('directive') ?? {}) as Directive;
  await act(directive, input.signal);
  for (const [key, value] of Object.entries(directive.set ?? {})) input.context.set(key, value);
  for (const key of directive.delete ?? []) input.context.delete(key);
  if (directive.calls !== undefined) input.context.set('called', await callHost(input, directive.calls));
  return directive;
}

async function act(directive: Directive, signal: AbortSignal): Promise<void> {
  if (directive.print !== undefined) process.stdout.write(`${directive.print}\n`);
  if (directive.log !== undefined) log.warn(directive.log, { answer: 42 });
  if (directive.panic !== undefined) {
    log.error(`panic: ${directive.panic}`);
    process.exit(2);
  }
  if (directive.hang !== undefined) {
    log.info('hangs', { mark: directive.hang });
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve());
    });
    log.info('cancelled', { mark: directive.hang });
    throw new Error('cancelled');
  }
  if (directive.fail !== undefined) throw new Error(directive.fail);
}

async function callHost(of: CallContext, calls: readonly HostCall[]): Promise<JsonValue> {
  const results: JsonValue[] = [];
  for (const call of calls) {
    try {
      results.push({ code: 0, text: await callOnce(of, call) });
    } catch (error) {
      if (!(error instanceof HostCallError)) throw error;
      results.push({ code: codes[error.code] ?? 2, text: error.message });
    }
  }
  return results;
}

async function callOnce(of: CallContext, call: HostCall): Promise<string> {
  const { name: key = '', text = '', value = null } = call;
  const address = { ...of, sessionId: call.session ?? of.sessionId };
  const scope = (call.scope ?? 'session') as 'session' | 'user' | 'tenant';
  switch (call.method) {
    case 'MemoryGet': {
      const found = await of.host.memory.get(address, key, scope);
      if (found === undefined) throw new HostCallError('MemoryGet', 'NOT_FOUND', 'nothing is stored under that name');
      return found;
    }
    case 'MemoryUpsert':
      await of.host.memory.upsert(address, key, text, scope);
      return '';
    case 'AppendNotice':
      await of.host.appendNotice(address, text);
      return '';
    case 'Complete':
      return of.host.complete(address, { prompt: key, text });
    case 'Emit':
      await of.host.emit(address, key, value);
      return '';
    case 'RegisterMethod':
      await of.host.registerTool(
        defineTool({ name: key, description: text, parameters: value as JsonObject, execute: () => null }),
      );
      return '';
    case 'GetActiveTools':
      return (await of.host.tools.active(address)).join(',');
    case 'SetActiveTools':
      await of.host.tools.setActive(address, text.split(','));
      return '';
    case 'GetSystemPrompt':
      return of.host.systemPrompt(address);
    case 'GetSetting':
      return JSON.stringify(await of.host.settings.get(address, key));
    case 'SetSetting':
      await of.host.settings.set(address, key, value);
      return '';
    case 'GetSecret':
      return (await of.host.secrets.get(address, key)) ?? '';
    case 'SetSecret':
      await of.host.secrets.set(address, key, text);
      return '';
    case 'ListModels':
      return (await of.host.models(address)).join(',');
    default:
      throw new Error(`the host is not known to have ${call.method}`);
  }
}

function rearranged(messages: readonly Message[], { drop = 0, add = [] }: Directive): readonly Message[] | undefined {
  return drop === 0 && add.length === 0 ? undefined : [...messages.slice(drop), ...add];
}

serve({
  name,
  version: '1.0.0',
  capabilities: ['conformance-directives'],
  async onAgentInput(input) {
    const { type, reason = '', append, change = {} } = await told(input);
    if (type === 'input/handled') return input.handle(reason);
    if (type === 'input/blocked') return input.block(reason);
    return input.reply({ ...(append === undefined ? {} : { content: input.content + append }), ...change });
  },
  async onAgentPreStep(input) {
    const directive = await told(input);
    if (directive.type === 'run/blocked') return input.block(directive.reason ?? '');
    return input.reply({
      systemPrompt: directive.append === undefined ? undefined : input.systemPrompt + directive.append,
      hidden: rearranged(input.hidden, directive),
    });
  },
  async onAgentRequest(input) {
    const directive = await told(input);
    return input.reply({
      systemPrompt: directive.append === undefined ? undefined : input.systemPrompt + directive.append,
      messages: rearranged(input.messages, directive),
    });
  },
  async onLlmStream(input) {
    const { change = {} } = await told(input);
    return input.reply(change as { headers?: Record<string, string>; body?: JsonValue });
  },
  async onToolPreExecute(input) {
    const { type, reason = '', change, skip_result: result } = await told(input);
    switch (type) {
      case 'tools/denied':
        return input.deny(reason);
      case 'tools/ask':
        return input.askApproval(reason, change);
      case 'tools/skipped':
        return input.skip(result, reason);
      case 'run/aborted':
        return input.abort(reason);
      default:
        return input.reply(change);
    }
  },
  async onToolPostExecute(input) {
    const { change = {} } = await told(input);
    const { Output: output, Success: success, Error: error } = change as Record<string, never>;
    return input.reply({ output, success, error });
  },
  onLedgerNotify: {
    events: ['run.started', 'run.completed', 'tool.execution_started', 'tool.execution_result', 'interop.told'],
    async handler(notice) {
      const payload = JSON.stringify(notice.payload);
      log.info('noticed', { event: notice.event, payload });
      // An emitted event carries no authority to call back.
      if (notice.event !== 'interop.told') await notice.host.memory.upsert(notice, `noticed ${notice.event}`, payload);
    },
  },
  tools: [
    defineTool({
      name: `${name}_tool`,
      description: 'Does what its argument says.',
      parameters: { type: 'object', properties: { directive: { type: 'object' } } },
      requiresApproval: true,
      async execute(args, call) {
        const directive = (args['directive'] ?? {}) as Directive;
        await act(directive, call.signal);
        const called = await callHost(call, directive.calls ?? []);
        const { callId, idempotencyKey, attempt } = call;
        return { arguments: args, called, call_id: callId, idempotency_key: idempotencyKey, attempt };
      },
    }),
  ],
});
