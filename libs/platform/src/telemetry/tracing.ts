import {
  type Attributes,
  type Context,
  context as contextApi,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { redactText } from '../logging/index.js';
import { type SpanIds, type TraceCarrier, withSpanIds } from './span-ids.js';

/** Names of the span attributes of CodeDock. */
export const ATTRIBUTES = {
  runId: 'codedock.run.id',
  sessionId: 'codedock.session.id',
  attempt: 'codedock.run.attempt',
  turn: 'codedock.turn',
  tool: 'codedock.tool',
  queueMs: 'codedock.queue.ms',
  gate: 'codedock.gate',
  plugin: 'codedock.plugin',
  port: 'codedock.port',
  decision: 'codedock.decision',
  outcome: 'codedock.outcome',
  pluginGeneration: 'codedock.plugin.generation',
} as const;

/** How a span begins. */
export interface SpanOptions {
  readonly attributes?: Attributes;
  readonly kind?: SpanKind;
  /** Parent from another process; without it the active span is the parent. */
  readonly parent?: TraceCarrier | undefined;
  /** Spans that caused this one without containing it, e.g. the request that queued a run. */
  readonly links?: readonly TraceCarrier[];
  /** Begins a trace of its own. */
  readonly root?: boolean;
  /** When it began, milliseconds since the epoch; without it, now. */
  readonly startTime?: number;
  /** Ids of the span, where others must be able to name it. */
  readonly ids?: SpanIds;
}

/** Whether what happens now is recorded in a trace. */
export function isTraced(): boolean {
  return trace.getActiveSpan()?.isRecording() === true;
}

/**
 * Runs `work` inside a span and ends the span with it. A thrown error marks the span as failed, with its code and its
 * redacted message, and is thrown on. Without telemetry only `work` runs.
 */
export async function withSpan<T>(
  name: string,
  options: SpanOptions,
  work: (span: Span) => T | Promise<T>,
): Promise<T> {
  const { span, within } = openSpan(name, options);
  try {
    return await contextApi.with(within, () => work(span));
  } catch (error) {
    recordFailure(span, error);
    throw error;
  } finally {
    span.end();
  }
}

/** Starts a span that the caller ends; `within` is the context in which it is active. */
export function openSpan(name: string, options: SpanOptions = {}, from: Context = contextApi.active()) {
  const parent = options.parent ? contextOf(options.parent) : from;
  const span = withSpanIds(options.ids, () =>
    trace.getTracer('codedock').startSpan(
      name,
      {
        kind: options.kind ?? SpanKind.INTERNAL,
        attributes: options.attributes ?? {},
        links: (options.links ?? []).flatMap(linkOf),
        root: options.root ?? false,
        ...(options.startTime === undefined ? {} : { startTime: options.startTime }),
      },
      parent,
    ),
  );
  return { span, within: trace.setSpan(parent, span) };
}

/** The active trace context as text; empty outside a span or without telemetry. */
export function activeTrace(): TraceCarrier {
  const carrier: Record<string, string> = {};
  propagation.inject(contextApi.active(), carrier);
  const { traceparent, tracestate } = carrier;
  return { ...(traceparent ? { traceparent } : {}), ...(tracestate ? { tracestate } : {}) };
}

/** Id of the active trace; absent outside a span. */
export function activeTraceId(): string | undefined {
  return trace.getActiveSpan()?.spanContext().traceId;
}

/** Runs `work` as part of the trace of `carrier`, without a span of its own. */
export function inTrace<T>(carrier: TraceCarrier, work: () => T): T {
  return contextApi.with(contextOf(carrier), work);
}

/** Marks a span as failed: code and redacted message, never the stack. */
export function recordFailure(span: Span, error: unknown): void {
  const message = redactText(error instanceof Error ? error.message : String(error));
  const code = (error as { code?: unknown } | undefined)?.code;
  span.setStatus({ code: SpanStatusCode.ERROR, message });
  span.setAttribute('error.type', typeof code === 'string' ? code : error instanceof Error ? error.name : 'unknown');
}

function contextOf(carrier: TraceCarrier): Context {
  return propagation.extract(ROOT_CONTEXT, carrier);
}

function linkOf(carrier: TraceCarrier): Link[] {
  const context = trace.getSpanContext(contextOf(carrier));
  return context ? [{ context }] : [];
}
