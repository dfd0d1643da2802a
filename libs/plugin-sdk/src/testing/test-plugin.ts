import { type Port, plugin } from '@codedock/proto';
import { answerEvent } from '../answer-event.js';
import { compilePlugin } from '../compiled-plugin.js';
import { executeMethod } from '../execute-method.js';
import type { Host } from '../host/host.js';
import type { JsonObject, JsonValue } from '../json.js';
import type { PluginDefinition } from '../plugin-definition.js';
import type { Message } from '../ports/message.js';
import type { Principal } from '../principal.js';
import { withTools } from '../tools/with-tools.js';
import { type Decision, decide } from './decide.js';
import { decoded, type EnvelopeJson, overTheWire, toEnvelope } from './envelope-json.js';
import { type RecordingHost, recordingHost } from './recording-host.js';

/** What surrounds a question; every member has a default. */
export interface QuestionOptions {
  readonly sessionId?: string;
  readonly runId?: string;
  readonly turnId?: string;
  readonly principal?: Partial<Principal>;
  /** The scratchpad as it is sent. */
  readonly context?: JsonObject;
  /** Milliseconds. */
  readonly budgetMs?: number;
  readonly attempt?: number;
  readonly seen?: readonly string[];
  /** Aborts what the plugin sees as `input.signal`. */
  readonly signal?: AbortSignal;
}

/** A tool call as tests write it. */
export interface TestCall {
  readonly name: string;
  readonly arguments?: JsonValue;
  /** Default `call-1`. */
  readonly id?: string;
}

/** What a tool answered. */
export interface ToolOutcome {
  readonly success: boolean;
  readonly output: JsonValue | undefined;
  readonly error: string | undefined;
}

/** A plugin that can be asked like a host asks it. Errors of its handlers are thrown. */
export interface TestedPlugin {
  readonly manifest: plugin.Manifest;
  /** What the plugin asked of its host, unless another host was given. */
  readonly host: RecordingHost;
  agentInput(input: { readonly content: string; readonly mode?: string }, options?: QuestionOptions): Promise<Decision>;
  agentPreStep(
    step: { readonly systemPrompt?: string; readonly hidden?: readonly Message[] },
    options?: QuestionOptions,
  ): Promise<Decision>;
  agentRequest(
    request: { readonly systemPrompt?: string; readonly messages?: readonly Message[] },
    options?: QuestionOptions,
  ): Promise<Decision>;
  llmStream(
    request: { readonly headers?: Readonly<Record<string, string>>; readonly body?: JsonValue },
    options?: QuestionOptions,
  ): Promise<Decision>;
  toolPreExecute(call: TestCall, options?: QuestionOptions): Promise<Decision>;
  toolPostExecute(
    done: { readonly call: TestCall; readonly output?: JsonValue; readonly success?: boolean; readonly error?: string },
    options?: QuestionOptions,
  ): Promise<Decision>;
  /** Delivers a ledger event. */
  notify(event: string, payload?: JsonObject, options?: QuestionOptions): Promise<void>;
  /** Executes one of the plugin's tools. */
  callTool(
    name: string,
    args?: JsonValue,
    options?: QuestionOptions & { readonly callId?: string; readonly idempotencyKey?: string },
  ): Promise<ToolOutcome>;
  /** Asks with an envelope as it was recorded or written down. */
  ask(envelope: EnvelopeJson, signal?: AbortSignal): Promise<Decision>;
}

const neverAborted = new AbortController().signal;

/** Runs a plugin in this process over the code that serves it: envelopes are encoded and decoded, only the socket is missing. */
export function testPlugin(definition: PluginDefinition, options: { readonly host?: Host } = {}): TestedPlugin {
  const compiled = compilePlugin(definition);
  const recording = recordingHost();
  const host = withTools(compiled, options.host ?? recording);
  let starting: Promise<void> | undefined;
  const start = async () => {
    for (const tool of [...compiled.tools.values()]) await host.registerTool(tool);
    await definition.bootstrap?.(host);
  };
  const ask = async (json: EnvelopeJson, signal = neverAborted): Promise<Decision> => {
    starting ??= start();
    await starting;
    const question = overTheWire(toEnvelope(json));
    const answer = await answerEvent(compiled, question, { signal, host, timeLeftMs: Number.POSITIVE_INFINITY });
    return decide(question, overTheWire(answer));
  };
  const onPort = (port: Port, payload: JsonObject, given: QuestionOptions = {}) =>
    ask(questionOf(port, payload, given), given.signal);

  return {
    manifest: compiled.manifest,
    host: recording,
    ask,
    agentInput: (input, given) => onPort('agent/input', { ...input }, given),
    agentPreStep: ({ systemPrompt = '', hidden }, given) =>
      onPort('agent/pre-step', withMessages({ system_prompt: systemPrompt }, 'hidden', hidden), given),
    agentRequest: ({ systemPrompt = '', messages }, given) =>
      onPort('agent/request', withMessages({ system_prompt: systemPrompt }, 'messages', messages), given),
    llmStream: ({ headers = {}, body }, given) =>
      onPort('llm/stream', { headers: { ...headers }, ...(body === undefined ? {} : { body }) }, given),
    toolPreExecute: (call, given) => onPort('tools/pre-execute', { call: wireCall(call) }, given),
    toolPostExecute: ({ call, output, success = true, error = '' }, given) => {
      const { id, name } = wireCall(call) as { id: string; name: string };
      const result = {
        CallID: id,
        Name: name,
        ...(output === undefined ? {} : { Output: output }),
        Success: success,
        Error: error,
      };
      return onPort('tools/post-execute', { call: wireCall(call), result }, given);
    },
    async notify(event, payload = {}, given = {}) {
      await ask(questionOf(event, payload, given), given.signal);
    },
    async callTool(name, args = {}, given = {}) {
      starting ??= start();
      await starting;
      const { callId = 'call-1', idempotencyKey = callId } = given;
      const input = plugin.MethodInput.create({
        sessionId: given.sessionId ?? 'session-1',
        runId: given.runId ?? 'run-1',
        turnId: given.turnId ?? 'turn-1',
        callId,
        idempotencyKey,
        name,
        arguments: Buffer.from(JSON.stringify(args)),
        attempt: given.attempt ?? 1,
        principal: Buffer.from(JSON.stringify(given.principal ?? {})),
      });
      const call = { signal: given.signal ?? neverAborted, host, timeLeftMs: Number.POSITIVE_INFINITY };
      const result = await executeMethod(compiled, input, call);
      if (result === undefined) throw new Error(`the plugin has no tool "${name}"`);
      const { success, output, error } = result;
      return { success, output: decoded(output), error: error === '' ? undefined : error };
    },
  };
}

function questionOf(type: string, payload: JsonObject, given: QuestionOptions): EnvelopeJson {
  return {
    type,
    payload,
    chain_id: 'chain-1',
    seen: given.seen ?? [],
    session_id: given.sessionId ?? 'session-1',
    run_id: given.runId ?? (type === 'agent/input' ? '' : 'run-1'),
    turn_id: given.turnId ?? '',
    context: given.context ?? {},
    budget_ms: given.budgetMs ?? 2_000,
    attempt: given.attempt ?? 1,
    principal: { metadata: {}, ...given.principal },
  };
}

function withMessages(payload: JsonObject, member: string, messages: readonly Message[] | undefined): JsonObject {
  return messages === undefined ? payload : { ...payload, [member]: messages as unknown as JsonValue };
}

function wireCall({ id = 'call-1', name, arguments: args }: TestCall): JsonObject {
  return { id, name, ...(args === undefined ? {} : { arguments: args }), idempotency_key: id };
}
