/**
 * A plugin that does what the metadata of the session or run tells it:
 * `{policies: {<its folder name>: {<port>: Told}}}`, at the tool ports `{<tool>: Told}`. Untold it goes on unchanged.
 * Each question and event is one line of JSON (`Asked`) in the file `log` of its configuration.
 */
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  config,
  hiddenText,
  type JsonObject,
  type JsonValue,
  type Message,
  type PluginDefinition,
} from '@codedock/plugin-sdk';
import { serveUnchecked } from '@codedock/plugin-sdk/testing';

/** What a plugin is told to do at a port. */
export interface Told {
  /** Scratchpad keys to set, before anything else. */
  readonly remember?: JsonObject;
  readonly hang?: boolean;
  readonly throw?: string;
  readonly delayMs?: number;
  /** A decision of the port: its method's name, and the reason or result. */
  readonly decide?: readonly [
    'handle' | 'block' | 'deny' | 'askApproval' | 'skip' | 'abort',
    reasonOrResult?: JsonValue,
  ];
  /** Members for `reply` (or for `askApproval`, which may change arguments). */
  readonly change?: JsonObject;
  /** Appended to the port's text. */
  readonly append?: string;
  /** A hidden message more, in base64: so that the text is nowhere but where the plugin brings it. */
  readonly hide?: string;
  /** The system prompt, in base64. */
  readonly prompt?: string;
  /** In the messages' text, the first is replaced by the second, which is in base64. */
  readonly replace?: readonly [string, string];
  /** Only at this execution of a call, from 1. */
  readonly onExecution?: number;
  /** The answer's payload, byte for byte. */
  readonly raw?: string;
}

/** One line of the log. */
export interface Asked {
  readonly plugin: string;
  readonly port: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly seen: readonly string[];
  /** As received. */
  readonly payload: string;
  readonly context: string;
  readonly principal: string;
}

const { log, ports, events } = config() as { log: string; ports?: string[]; events?: string[] };
const name = process.env['CODEDOCK_PLUGIN_NAME'] ?? '';

type AnyInput = Parameters<NonNullable<PluginDefinition['onAgentInput']>>[0] & {
  readonly call?: { readonly name: string; readonly attempt?: number };
  readonly systemPrompt?: string;
  readonly hidden?: readonly Message[];
  readonly messages?: readonly Message[];
  readonly result?: { readonly output?: JsonValue };
} & Record<'reply' | NonNullable<Told['decide']>[0], (...args: unknown[]) => never>;

function toldOf(metadata: JsonObject, port: string, tool: string | undefined): Told | undefined {
  const policies = metadata['policies'] as Record<string, Record<string, Told & Record<string, Told>>> | undefined;
  const told = policies?.[name]?.[port];
  return tool === undefined ? told : told?.[tool];
}

const on = (port: string) => async (input: AnyInput) => {
  const told = toldOf(input.principal.metadata, port, input.call?.name);
  if (told === undefined) return undefined;
  if (told.onExecution !== undefined && told.onExecution !== input.call?.attempt) return undefined;
  for (const [key, value] of Object.entries(told.remember ?? {})) input.context.set(key, value);
  if (told.delayMs !== undefined) await delay(told.delayMs);
  if (told.hang === true) await new Promise(() => undefined);
  if (told.throw !== undefined) throw new Error(told.throw);
  if (told.decide !== undefined) return input[told.decide[0]](told.decide[1], told.change);
  return input.reply({ ...changesOf(input, told), ...told.change });
};

function changesOf(input: AnyInput, { append, hide, prompt, replace }: Told): object {
  return {
    ...(prompt === undefined ? {} : { systemPrompt: decoded(prompt) }),
    ...(append === undefined ? {} : appended(input, append)),
    ...(hide === undefined ? {} : { hidden: [...(input.hidden ?? []), hiddenText(decoded(hide))] }),
    ...(replace === undefined
      ? {}
      : {
          messages: JSON.parse(JSON.stringify(input.messages).replaceAll(replace[0], decoded(replace[1]))) as Message[],
        }),
  };
}

const toolIn = (payload: string) => (JSON.parse(payload) as { call: { name: string } }).call.name;

const decoded = (base64: string) => Buffer.from(base64, 'base64').toString('utf8');

function appended(input: AnyInput, text: string): object {
  if (input.result !== undefined) return { output: `${input.result.output ?? ''}${text}` };
  if (input.systemPrompt !== undefined) return { systemPrompt: input.systemPrompt + text };
  return { content: input.content + text };
}

const handlers = {
  'agent/input': 'onAgentInput',
  'agent/pre-step': 'onAgentPreStep',
  'agent/request': 'onAgentRequest',
  'llm/stream': 'onLlmStream',
  'tools/pre-execute': 'onToolPreExecute',
  'tools/post-execute': 'onToolPostExecute',
} as const;

const asked = (ports ?? Object.keys(handlers)) as (keyof typeof handlers)[];

serveUnchecked(
  {
    name,
    version: '1.0.0',
    ...Object.fromEntries(asked.map((port) => [handlers[port], on(port)])),
    ...(events === undefined ? {} : { onLedgerNotify: { events, handler: () => undefined } }),
  },
  (services) => ({
    ...services,
    onEvent: (call, callback) => {
      const { type: port, sessionId, runId, seen } = call.request;
      const principal = call.request.principal.toString('utf8');
      const line: Asked = {
        plugin: name,
        port,
        sessionId,
        runId,
        seen,
        payload: call.request.payload.toString('utf8'),
        context: call.request.context.toString('utf8'),
        principal,
      };
      appendFileSync(log, `${JSON.stringify(line)}\n`);
      const { metadata = {} } = JSON.parse(principal || '{}') as { metadata?: JsonObject };
      const told = toldOf(metadata, port, port.startsWith('tools/') ? toolIn(line.payload) : undefined);
      services.onEvent(call, (error, answer, ...rest) =>
        callback(
          error,
          answer && told?.raw !== undefined ? { ...answer, payload: Buffer.from(told.raw) } : answer,
          ...rest,
        ),
      );
    },
  }),
);
