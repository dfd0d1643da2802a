import {
  AppError,
  type Model,
  type ModelChunk,
  type ModelGates,
  type ModelRequest,
  type RetryPolicy,
} from '@codedock/domain';
import OpenAI from 'openai';
import { abortableSleep } from '../abortable-sleep.js';
import { providerAgent, requireOrigin } from '../egress.js';
import type { HeaderRefusal } from '../header-policy.js';
import { type AttemptTrace, gatedFetch } from './gated-fetch.js';
import { providerFailure } from './provider-failure.js';
import { ReplyBuilder } from './reply-builder.js';
import { baseUrlOf, chatBody } from './request-body.js';

/** How to reach an OpenAI-compatible provider. */
export interface OpenAiOptions {
  /** Sent as a bearer token; absent for local servers that ask for none. */
  readonly apiKey?: string;
  /** Ends in `/v1` usually. */
  readonly baseUrl: string;
  readonly organization?: string;
  readonly project?: string;
  /** Further origins that profiles may name as `options.baseUrl`; they get the same credentials. */
  readonly allowedOrigins?: readonly string[];
  /** Allows providers inside private networks. A loopback base URL needs no permission. */
  readonly allowPrivateNetwork?: boolean;
  /** Longest silence of the provider, head and body alike, milliseconds. Default 60,000. */
  readonly idleTimeoutMs?: number;
  /** Told about header changes of hooks that were refused at the last moment. */
  readonly onRefusedHeaders?: (refused: readonly HeaderRefusal[]) => void;
}

/** A provider with connections of its own. */
export interface OpenAiModel extends Model {
  /** Closes idle connections. */
  close(): Promise<void>;
}

const IDLE_TIMEOUT_MS = 60_000;
/** The client's own timer would only repeat the idle watch; this is the longest it accepts. */
const NO_TIMEOUT_MS = 2_147_483_647;

/**
 * The adapter for OpenAI-compatible providers: streaming chat completions through the official client, every attempt
 * through the gates, retries on 408, 409, 429, 5xx and broken connections.
 */
export function openAiModel(options: OpenAiOptions): OpenAiModel {
  const egress = {
    origins: [...new Set([options.baseUrl, ...(options.allowedOrigins ?? [])].map((url) => new URL(url).origin))],
    allowPrivateNetwork: options.allowPrivateNetwork ?? false,
  };
  const dispatcher = providerAgent(egress);
  const idleTimeoutMs = options.idleTimeoutMs ?? IDLE_TIMEOUT_MS;

  async function* attempt(
    request: ModelRequest,
    gates: ModelGates,
    trace: AttemptTrace,
    signal: AbortSignal,
  ): AsyncGenerator<ModelChunk> {
    const baseURL = requireOrigin(baseUrlOf(request) ?? options.baseUrl, egress).href;
    const idle = new AbortController();
    const watch = new IdleWatch(idleTimeoutMs, () => idle.abort());
    const client = new OpenAI({
      apiKey: options.apiKey ?? 'none',
      organization: options.organization ?? null,
      project: options.project ?? null,
      baseURL,
      maxRetries: 0,
      timeout: NO_TIMEOUT_MS,
      logLevel: 'off',
      fetch: gatedFetch({
        // The time a gate takes is not the provider's.
        gates: pausing(gates, watch),
        dispatcher,
        trace,
        ...(options.onRefusedHeaders && { onRefusedHeaders: options.onRefusedHeaders }),
      }),
      ...(options.apiKey === undefined && { defaultHeaders: { authorization: null } }),
    });
    try {
      watch.start();
      const stream = await client.chat.completions.create(chatBody(request), {
        signal: AbortSignal.any([signal, idle.signal]),
      });
      const builder = new ReplyBuilder();
      for await (const chunk of stream) {
        watch.stop();
        const text = builder.add(chunk);
        if (text !== '') yield { kind: 'delta', text };
        watch.start();
      }
      signal.throwIfAborted();
      const reply = builder.build();
      if (reply === undefined) {
        if (idle.signal.aborted) throw idleFailure(idleTimeoutMs);
        throw new AppError('provider_unavailable', 'The model provider ended its answer before it was complete.');
      }
      yield { kind: 'completed', reply };
    } catch (thrown) {
      if (idle.signal.aborted && !signal.aborted) throw idleFailure(idleTimeoutMs, thrown);
      throw thrown;
    } finally {
      watch.stop();
    }
  }

  return {
    async *stream(request, gates, signal): AsyncGenerator<ModelChunk> {
      for (let n = 1; ; n += 1) {
        const trace: AttemptTrace = {};
        let emitted = false;
        try {
          for await (const chunk of attempt(request, gates, trace, signal)) {
            if (chunk.kind === 'delta') emitted = true;
            yield chunk;
          }
          return;
        } catch (thrown) {
          signal.throwIfAborted();
          const { gateFailure } = trace;
          if (gateFailure !== undefined && gateFailure.gate !== 'response') throw gateFailure.thrown;
          const failure = providerFailure(thrown, Date.now());
          const retryable = gateFailure !== undefined || failure.retryable;
          if (!retryable || n >= request.retry.maxAttempts) throw gateFailure?.thrown ?? failure.error;
          await abortableSleep(failure.retryAfterMs ?? retryDelay(request.retry, n), signal);
          if (emitted) yield { kind: 'restarted' };
        }
      }
    },
    close: () => dispatcher.close(),
  };
}

/** Milliseconds before the attempt after number `n`: exponential, with full jitter in its upper half. */
function retryDelay(policy: RetryPolicy, n: number): number {
  const ceiling = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** Math.min(n - 1, 20));
  return ceiling * (0.5 + Math.random() / 2);
}

function idleFailure(ms: number, cause?: unknown): AppError {
  return new AppError('provider_timeout', `The model provider was silent for ${ms} ms.`, { cause });
}

/** Calls back after a silence. */
class IdleWatch {
  readonly #ms: number;
  readonly #expired: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number, expired: () => void) {
    this.#ms = ms;
    this.#expired = expired;
  }

  start(): void {
    this.stop();
    this.#timer = setTimeout(this.#expired, this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

function pausing(gates: ModelGates, watch: IdleWatch): ModelGates {
  const around =
    <A, R>(gate: (input: A) => Promise<R>) =>
    async (input: A): Promise<R> => {
      watch.stop();
      const answer = await gate(input);
      watch.start();
      return answer;
    };
  return {
    ...(gates.headers && { headers: around(gates.headers) }),
    ...(gates.request && { request: around(gates.request) }),
    ...(gates.response && { response: around(gates.response) }),
  };
}
