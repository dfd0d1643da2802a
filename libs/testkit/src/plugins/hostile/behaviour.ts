import { spawn } from 'node:child_process';
import { appendFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { PluginDefinition } from '@codedock/plugin-sdk';
import type { PluginMode, PortName } from './mode.js';
import { testTool } from './tools.js';

/** What a handler answers with, whatever its port; checked at run time by the SDK. */
type AnyInput = {
  readonly content?: string;
  readonly systemPrompt?: string;
  readonly call?: { readonly name: string };
  readonly result?: { readonly output: unknown };
  readonly context: { set(key: string, value: unknown): void };
} & Record<'reply' | 'handle' | 'block' | 'deny' | 'askApproval' | 'skip' | 'abort', (...args: unknown[]) => never>;

type Handlers = Pick<
  PluginDefinition,
  | 'onAgentInput'
  | 'onAgentPreStep'
  | 'onAgentRequest'
  | 'onLlmStream'
  | 'onToolPreExecute'
  | 'onToolPostExecute'
  | 'onLedgerNotify'
  | 'tools'
>;

const handlerOf = {
  'agent/input': 'onAgentInput',
  'agent/pre-step': 'onAgentPreStep',
  'agent/request': 'onAgentRequest',
  'llm/stream': 'onLlmStream',
  'tools/pre-execute': 'onToolPreExecute',
  'tools/post-execute': 'onToolPostExecute',
} as const satisfies Record<PortName, keyof PluginDefinition>;

/** The well-formed half of a mode: subscriptions, and what a handler does before (or instead of) answering. */
export function behaviourOf(mode: PluginMode): Handlers {
  switch (mode.mode) {
    case 'hang':
      return on(mode.port, () => new Promise(() => undefined));
    case 'exit':
      return on(mode.port, () => process.exit(mode.code ?? 3));
    case 'kill-self':
      return on(mode.port, () => process.kill(process.pid, 'SIGKILL'));
    case 'throw':
      return on(mode.port, () => {
        throw new Error(mode.message ?? 'thrown as told');
      });
    case 'late':
      return on(mode.port, async () => void (await delay(mode.delayMs)));
    case 'garbage':
    case 'wrong-direction':
    case 'wrong-type':
    case 'oversize':
      return on(mode.port, () => undefined);
    case 'change-call-id':
      return on(mode.port ?? 'tools/pre-execute', () => undefined);
    case 'count':
      return {
        ...Object.assign({}, ...(mode.ports ?? []).map((port) => on(port, () => undefined))),
        ...(mode.events === undefined ? {} : { onLedgerNotify: { events: mode.events, handler: () => undefined } }),
      };
    case 'transform':
      return on(mode.port, (input) => input.reply(mode.changes));
    case 'append':
      return on(mode.port, (input) => input.reply(appended(input, mode.text)));
    case 'handled':
      return on('agent/input', (input) => input.handle(mode.reason));
    case 'block':
      return on(mode.port, (input) => input.block(mode.reason ?? 'blocked as told'));
    case 'deny':
      return onTool(mode.tools, (input) => input.deny(mode.reason ?? 'denied as told'));
    case 'ask':
      return onTool(mode.tools, (input) =>
        input.askApproval(mode.reason ?? 'asked as told', { arguments: mode.arguments }),
      );
    case 'skip':
      return onTool(mode.tools, (input) => input.skip(mode.result, mode.reason));
    case 'abort':
      return onTool(mode.tools, (input) => input.abort(mode.reason ?? 'aborted as told'));
    case 'scratchpad':
      return on(mode.port, (input) => input.context.set(mode.key, mode.value));
    case 'tools':
      return { tools: mode.tools.map(testTool) };
    default:
      return {};
  }
}

/** What a mode does before anything is served. */
export function startOf(mode: PluginMode): 'serve' | 'never' {
  if (mode.mode === 'print-before-handshake') writeFileSync(1, `${mode.text ?? 'loading the configuration …'}\n`);
  if (mode.mode === 'exit-at-start') {
    writeFileSync(2, 'ended at the start as told\n');
    process.exit(mode.code ?? 3);
  }
  if (mode.mode === 'spawn-grandchild') spawnGrandchild(mode.pidFile, mode.detached ?? false);
  if (mode.mode !== 'silent') return 'serve';
  setInterval(() => undefined, 60_000);
  return 'never';
}

/** Appends what was asked to the file of the mode `count`. */
export function countQuestion(mode: PluginMode, port: string, envelope: unknown): void {
  if (mode.mode === 'count') appendFileSync(mode.file, `${JSON.stringify({ port, envelope })}\n`);
}

function on(port: PortName, act: (input: AnyInput) => unknown): Handlers {
  return { [handlerOf[port]]: act } as Handlers;
}

function onTool(tools: readonly string[] | undefined, act: (input: AnyInput) => unknown): Handlers {
  return on('tools/pre-execute', (input) => {
    if (tools === undefined || tools.includes(input.call?.name ?? '')) return act(input);
    return undefined;
  });
}

function appended(input: AnyInput, text: string): Record<string, unknown> {
  if (input.result !== undefined) return { output: `${input.result.output ?? ''}${text}` };
  if (input.systemPrompt !== undefined) return { systemPrompt: input.systemPrompt + text };
  return { content: `${input.content ?? ''}${text}` };
}

function spawnGrandchild(pidFile: string, detached: boolean): void {
  const script = "process.on('SIGTERM', () => undefined); setInterval(() => undefined, 60000)";
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'inherit', 'inherit'], detached });
  child.unref();
  writeFileSync(pidFile, String(child.pid));
}
