import type { JsonValue } from '../json.js';
import type { Message } from '../message.js';
import type { ModelChoice, RetryPolicy } from '../profile.js';
import type { ToolDefinition } from '../tool-call.js';
import type { Usage } from '../usage.js';

/** Header names are lower-case. */
export type HttpHeaders = Readonly<Record<string, string>>;

/** One model call. `messages` hold neither notices nor the system prompt. */
export interface ModelRequest {
  readonly model: ModelChoice;
  readonly systemPrompt: string;
  /** Hidden messages first, then history. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly retry: RetryPolicy;
  readonly runId: string;
  readonly sessionId: string;
  /** Number of the turn that asks, from 1; absent outside of a turn. */
  readonly turn?: number;
  /** `summary`: the older part of the context is to be summarised; absent: the next reply. */
  readonly purpose?: 'summary';
}

/**
 * The gates of an HTTP provider, asked by the adapter right before and after each attempt; a provider that speaks no
 * HTTP (`fake`) never asks them. What they throw ends the call without retries (`response`: fails the attempt).
 */
export interface ModelGates {
  readonly headers?: (headers: HttpHeaders) => Promise<HttpHeaders>;
  /** `body` is the JSON text about to be sent; the answer's text is sent as it is. Credentials are not among the headers. */
  readonly request?: (request: {
    headers: HttpHeaders;
    body: string;
  }) => Promise<{ headers: HttpHeaders; body: string }>;
  readonly response?: (response: { status: number; headers: HttpHeaders }) => Promise<void>;
}

/** A complete model reply. */
export interface ModelReply {
  readonly text: string;
  readonly toolCalls: readonly ProposedCall[];
  readonly usage: Usage;
  /** `stop`, `tool_calls`, `length`, `content_filter`, or the provider's own word. */
  readonly finishReason: string;
}

/** A tool call as the provider sent it. `arguments` is undefined when its text is not JSON; `rawArguments` is that text. */
export interface ProposedCall {
  readonly providerCallId: string;
  readonly name: string;
  readonly arguments: JsonValue | undefined;
  readonly rawArguments: string;
}

/** What a model call yields while it runs; `delta` texts in order make the reply. */
export type ModelChunk =
  | { readonly kind: 'delta'; readonly text: string }
  /** The provider attempt failed and is made anew: the deltas so far count no more. */
  | { readonly kind: 'restarted' }
  | { readonly kind: 'completed'; readonly reply: ModelReply };

/** A model provider. The last chunk of a stream is `completed`; failures are thrown as `provider_*` errors after the adapter's own retries. */
export interface Model {
  stream(request: ModelRequest, gates: ModelGates, signal: AbortSignal): AsyncIterable<ModelChunk>;
}
