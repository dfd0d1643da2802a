import { AppError, type JsonValue, type ModelReply, NO_USAGE, type ProposedCall, type Usage } from '@codedock/domain';
import type OpenAI from 'openai';

interface CallFragments {
  id: string;
  name: string;
  arguments: string;
}

/** Puts the pieces of a streamed reply together. */
export class ReplyBuilder {
  #text = '';
  #finishReason: string | undefined;
  #usage: Usage = NO_USAGE;
  readonly #calls: CallFragments[] = [];

  /** Takes one chunk; returns the text it adds. */
  add(chunk: OpenAI.ChatCompletionChunk): string {
    if (chunk.usage) {
      this.#usage = {
        inputTokens: count(chunk.usage.prompt_tokens),
        outputTokens: count(chunk.usage.completion_tokens),
      };
    }
    const choice = chunk.choices?.[0];
    if (choice === undefined) return '';
    for (const part of choice.delta?.tool_calls ?? []) this.#addCall(part);
    if (choice.finish_reason) this.#finishReason = choice.finish_reason;
    const text = (choice.delta?.content ?? '') + (choice.delta?.refusal ?? '');
    this.#text += text;
    return text;
  }

  /** The complete reply; undefined when the stream ended before the provider said that it is complete. */
  build(): ModelReply | undefined {
    if (this.#finishReason === undefined) return undefined;
    return {
      text: this.#text,
      toolCalls: this.#calls.filter((call) => call !== undefined).map(proposed),
      usage: this.#usage,
      finishReason: this.#finishReason,
    };
  }

  #addCall(part: OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall): void {
    // Some endpoints leave the index out; then a new id starts a new call.
    const last = Math.max(0, this.#calls.length - 1);
    const started =
      part.id !== undefined && part.id !== '' && this.#calls[last] !== undefined && this.#calls[last].id !== part.id;
    const index = part.index ?? (started ? this.#calls.length : last);
    if (!Number.isInteger(index) || index < 0 || index > this.#calls.length) {
      throw new AppError('provider_protocol', 'The model provider sent tool calls out of order.');
    }
    const call = this.#calls[index] ?? { id: '', name: '', arguments: '' };
    this.#calls[index] = call;
    if (part.id) call.id = part.id;
    if (part.function?.name) call.name += call.name === part.function.name ? '' : part.function.name;
    call.arguments += part.function?.arguments ?? '';
  }
}

function proposed(call: CallFragments, index: number): ProposedCall {
  // A tool without parameters is often called with no text at all.
  const raw = call.arguments.trim() === '' ? '{}' : call.arguments;
  return { providerCallId: call.id || `call_${index}`, name: call.name, arguments: parsed(raw), rawArguments: raw };
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

function count(tokens: number | undefined): number {
  return Number.isSafeInteger(tokens) && (tokens as number) >= 0 ? (tokens as number) : 0;
}
