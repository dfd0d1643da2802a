import { mkdir } from 'node:fs/promises';
import { writePlugin } from '@codedock/testkit';
import { FAULTY_TOOL, QUESTION_MS } from './faults.js';

/** The plugin under test, between the two that behave. */
export const FAULTY = '20-faulty';

/** Marks the value of every port, so that it shows who was heard; appends a line per event to a file. */
const marking = (name: string, mark: string) => `
import { appendFileSync } from 'node:fs';
import { serve } from '@codedock/plugin-sdk';
const { file } = JSON.parse(process.env.CODEDOCK_PLUGIN_CONFIG ?? '{}');
serve({
  name: '${name}',
  version: '1.0.0',
  onAgentInput: (input) => input.reply({ content: input.content + '${mark}' }),
  onAgentPreStep: (input) => input.reply({ systemPrompt: input.systemPrompt + '${mark}' }),
  onAgentRequest: (input) => input.reply({ systemPrompt: input.systemPrompt + '${mark}' }),
  onLlmStream: (input) => input.reply({ headers: { 'x-mark': (input.headers?.['x-mark'] ?? '') + '${mark}' } }),
  onToolPreExecute: (input) => input.reply({ arguments: { mark: (input.call.arguments.mark ?? '') + '${mark}' } }),
  onToolPostExecute: (input) => input.reply({ output: input.result.output + '${mark}' }),
  onLedgerNotify: { events: ['run.started'], handler: () => file && appendFileSync(file, 'heard\\n') },
});`;

const faulty = `
import { defineTool } from '@codedock/plugin-sdk';
import { serveUnchecked } from '@codedock/plugin-sdk/testing';

const faultOf = ({ principal }) => JSON.parse(principal.toString() || '{}').metadata?.fault ?? 'none';

function misbehave(fault, callback, proceed) {
  switch (fault) {
    case 'hang': return;
    case 'SIGSTOP': return void process.kill(process.pid, 'SIGSTOP');
    case 'spin': for (;;);
    case 'exit 1': return process.exit(1);
    case 'SIGKILL': return void process.kill(process.pid, 'SIGKILL');
    case 'throw': return callback(Object.assign(new Error('thrown as told'), { code: 2 }));
    case 'slow': return void setTimeout(proceed, 300);
    case 'late': return void setTimeout(proceed, ${QUESTION_MS + 600});
    default: return proceed();
  }
}

const noes = { 'agent/input': 'input/blocked', 'agent/pre-step': 'run/blocked', 'tools/pre-execute': 'tools/denied' };

function spoiled(fault, answer, request) {
  const sent = request.payload.length > 0 ? JSON.parse(request.payload.toString()) : {};
  const payload = (value) => Buffer.from(JSON.stringify(value));
  switch (fault) {
    case 'garbage': return { ...answer, payload: Buffer.from('\\u0000 this is no JSON {"') };
    case 'wrong shape': return { ...answer, payload: payload({ ...sent, content: 7, system_prompt: 7, headers: 'x', call: 'x', result: 'x' }) };
    case 'wrong direction': return { ...answer, type: 'nonsense/type' };
    case 'oversize': return { ...answer, payload: payload({ ...sent, ...enlarged(sent) }) };
    case 'other call': {
      if (sent.call === undefined) return { ...answer, chainId: 'another-question' };
      const result = sent.result === undefined ? {} : { result: { ...sent.result, CallID: 'another' } };
      return { ...answer, payload: payload({ ...sent, call: { ...sent.call, id: 'another' }, ...result }) };
    }
    case 'late': return { ...answer, type: noes[request.type] ?? answer.type };
    default: return answer;
  }
}

/** The field that each port is about, larger than any answer may be. */
function enlarged(sent) {
  const text = 'x'.repeat(5 * 1024 * 1024);
  if (sent.result !== undefined) return { result: { ...sent.result, Output: text } };
  if (sent.call !== undefined) return { call: { ...sent.call, arguments: { text } } };
  if (sent.content !== undefined) return { content: text };
  return sent.system_prompt === undefined ? { body: { text } } : { system_prompt: text };
}

function spoiledResult(fault, result) {
  switch (fault) {
    case 'garbage': return { ...result, output: Buffer.from('\\u0000 this is no JSON {"') };
    case 'wrong shape': return { success: false, output: Buffer.alloc(0), error: '' };
    case 'wrong direction': return { ...result, error: 'an error beside success' };
    case 'oversize': return { ...result, output: Buffer.from(JSON.stringify('x'.repeat(5 * 1024 * 1024))) };
    default: return result;
  }
}

serveUnchecked(
  {
    name: 'faulty',
    version: '1.0.0',
    onAgentInput: () => undefined,
    onAgentPreStep: () => undefined,
    onAgentRequest: () => undefined,
    onLlmStream: () => undefined,
    onToolPreExecute: () => undefined,
    onToolPostExecute: () => undefined,
    onLedgerNotify: { events: ['run.started'], handler: () => undefined },
    tools: [
      defineTool({
        name: '${FAULTY_TOOL}',
        description: 'Answers.',
        parameters: { type: 'object' },
        timeoutMs: ${QUESTION_MS},
        execute: async () => 'done',
      }),
    ],
  },
  (services) => ({
    ...services,
    onEvent: (call, callback) => {
      const fault = faultOf(call.request);
      misbehave(fault, callback, () =>
        services.onEvent(call, (error, answer) => callback(error, answer && spoiled(fault, answer, call.request))),
      );
    },
    executeMethod: (call, callback) => {
      const fault = faultOf(call.request);
      misbehave(fault, callback, () =>
        services.executeMethod(call, (error, result) => callback(error, result && spoiledResult(fault, result))),
      );
    },
  }),
);`;

/** Writes the three plugins of the matrix; the ones that behave note events in `heardFile`. */
export async function writeMatrixPlugins(root: string, heardFile: string): Promise<void> {
  await mkdir(root, { recursive: true, mode: 0o755 });
  const config = { file: heardFile };
  await writePlugin(root, '10-before', { source: marking('before', 'a'), pluginJson: { config } });
  // Killed on purpose again and again: the matrix starts it when it needs it.
  await writePlugin(root, FAULTY, { source: faulty, pluginJson: { restart: { policy: 'never' } } });
  await writePlugin(root, '30-after', { source: marking('after', 'z') });
}
