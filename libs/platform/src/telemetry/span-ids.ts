import { createHash } from 'node:crypto';
import { TraceFlags } from '@opentelemetry/api';
import { tracing } from '@opentelemetry/sdk-node';

/** A trace context as text, for jobs and rows: W3C `traceparent` and `tracestate`. */
export interface TraceCarrier {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** Ids a span gets instead of random ones; the trace id only where the span begins a trace. */
export interface SpanIds {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
}

let given: SpanIds | undefined;

/** Ids that follow from a text: whoever knows the text can link to the span without having met it. */
export function spanIdsOf(text: string): SpanIds {
  const digest = createHash('sha256').update(text).digest('hex');
  return { traceId: digest.slice(0, 32), spanId: digest.slice(32, 48) };
}

/** The carrier of a span with these ids, as if it had been sampled. */
export function carrierOf({ traceId, spanId }: SpanIds): TraceCarrier {
  return { traceparent: `00-${traceId}-${spanId}-0${TraceFlags.SAMPLED}` };
}

/** Runs `start`, in which exactly one span is started, and gives that span the ids. */
export function withSpanIds<T>(ids: SpanIds | undefined, start: () => T): T {
  given = ids;
  try {
    return start();
  } finally {
    given = undefined;
  }
}

/** Random ids, but for a span started in `withSpanIds`. */
export class SpanIdGenerator implements tracing.IdGenerator {
  readonly #random = new tracing.RandomIdGenerator();

  generateSpanId(): string {
    return given?.spanId ?? this.#random.generateSpanId();
  }

  generateTraceId(): string {
    return given?.traceId ?? this.#random.generateTraceId();
  }
}
