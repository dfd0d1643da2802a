import {
  AppError,
  type JsonValue,
  type Model,
  type ModelChunk,
  type ModelReply,
  type ModelRequest,
  type ProposedCall,
  textOf,
} from '@codedock/domain';
import { abortableSleep } from '../abortable-sleep.js';
import { type FakeCall, type FakeStep, stepFor } from './script.js';

/**
 * The scripted provider: for tests, demonstrations and trying things out. Speaks no HTTP, so it never asks the
 * provider gates. What it does is in `FakeStep`.
 */
export const fakeModel: Model = {
  async *stream(request, _gates, signal): AsyncGenerator<ModelChunk> {
    signal.throwIfAborted();
    const step = stepFor(request);
    const texts = step.chunks ?? (step.text === undefined ? [] : [step.text]);
    for (const [index, text] of texts.entries()) {
      const wait = index === 0 ? step.delayMs : step.chunkDelayMs;
      if (wait !== undefined && wait > 0) await abortableSleep(wait, signal);
      signal.throwIfAborted();
      yield { kind: 'delta', text };
    }
    if (texts.length === 0 && step.delayMs !== undefined) await abortableSleep(step.delayMs, signal);
    if (step.hang === true) await hang(step, signal);
    signal.throwIfAborted();
    if (step.fail !== undefined) throw new AppError(step.fail, `The fake provider was told to fail with ${step.fail}.`);
    yield { kind: 'completed', reply: replyOf(request, step, texts.join('')) };
  },
};

function hang(step: FakeStep, signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (step.ignoreAbort === true) return;
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function replyOf(request: ModelRequest, step: FakeStep, text: string): ModelReply {
  const toolCalls = (step.toolCalls ?? []).map((call, index) =>
    proposed(call, `fake-${request.messages.length}-${index}`),
  );
  const written = text.length + toolCalls.reduce((sum, call) => sum + call.rawArguments.length, 0);
  const read = request.systemPrompt.length + request.messages.reduce((sum, message) => sum + textOf(message).length, 0);
  return {
    text,
    toolCalls,
    usage: { inputTokens: tokens(read), outputTokens: tokens(written), ...step.usage },
    finishReason: toolCalls.length > 0 ? 'tool_calls' : 'stop',
  };
}

/** The usual rule of thumb: four characters a token. */
const tokens = (characters: number) => Math.ceil(characters / 4);

function proposed(call: FakeCall, providerCallId: string): ProposedCall {
  if ('rawArguments' in call) {
    return { providerCallId, name: call.name, arguments: parsed(call.rawArguments), rawArguments: call.rawArguments };
  }
  const args = call.arguments ?? {};
  return { providerCallId, name: call.name, arguments: args, rawArguments: JSON.stringify(args) };
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
