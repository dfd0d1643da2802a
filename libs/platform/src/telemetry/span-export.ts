import { setTimeout as delay } from 'node:timers/promises';
import { type Context, TraceFlags } from '@opentelemetry/api';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { core, tracing } from '@opentelemetry/sdk-node';
import type { SpanExport } from '../config/telemetry-environment.js';
import { metrics } from './metrics.js';

const SHUTDOWN_LOOKS = 50;
const SHUTDOWN_LOOK_MS = 10;
/** After a batch that was not taken, the first pause and the longest, milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** Processors that send ended spans as the OTEL_* variables ask, in the background and from a bounded queue. */
export function spanProcessors({ exporter, protocol, queueSize }: SpanExport): tracing.SpanProcessor[] {
  if (exporter === 'console') return [new tracing.SimpleSpanProcessor(new tracing.ConsoleSpanExporter())];
  return [new CountedBatches(otlpExporter(protocol), queueSize)];
}

function otlpExporter(protocol: SpanExport['protocol']): tracing.SpanExporter {
  switch (protocol) {
    case 'grpc':
      return new GrpcExporter();
    case 'http/json':
      return new JsonExporter();
    case 'http/protobuf':
      return new ProtobufExporter();
  }
}

/**
 * Sends spans in batches; what the queue has no room for or the collector does not take is dropped and counted. A collector
 * that does not take them is left alone for a while: neither making batches nor reading its answers is to cost runs
 * anything, and it may be failing because of its load.
 */
class CountedBatches implements tracing.SpanProcessor {
  private waiting = 0;
  private pauseMs = 0;
  private readonly ending = new AbortController();
  private readonly batches: tracing.BatchSpanProcessor;

  constructor(
    private readonly exporter: tracing.SpanExporter,
    private readonly queueSize: number,
  ) {
    // Its other settings are OTEL_BSP_*, which it reads itself.
    this.batches = new tracing.BatchSpanProcessor(
      {
        export: (spans, done) => this.send(spans, done),
        shutdown: () => exporter.shutdown(),
        forceFlush: async () => exporter.forceFlush?.(),
      },
      { maxQueueSize: queueSize },
    );
  }

  onStart(span: tracing.Span, parent: Context): void {
    this.batches.onStart(span, parent);
  }

  onEnd(span: tracing.ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    if (this.waiting >= this.queueSize) {
      metrics.spansDropped.add(1, { reason: 'queue_full' });
      return;
    }
    this.waiting += 1;
    this.batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.batches.forceFlush();
  }

  /** A batch taken just now may still wait for the resource it is sent with; nobody else would wait for that. */
  async shutdown(): Promise<void> {
    this.ending.abort();
    for (let looks = 0; this.waiting > 0 && looks < SHUTDOWN_LOOKS; looks += 1) {
      await this.batches.forceFlush().catch(() => undefined);
      await delay(SHUTDOWN_LOOK_MS);
    }
    await this.batches.shutdown();
  }

  private send(spans: tracing.ReadableSpan[], done: (result: core.ExportResult) => void): void {
    this.waiting -= spans.length;
    this.exporter.export(spans, (result) => {
      if (result.code === core.ExportResultCode.SUCCESS) {
        this.pauseMs = 0;
        done(result);
        return;
      }
      metrics.spansDropped.add(spans.length, { reason: 'export_failed' });
      core.globalErrorHandler(result.error ?? new Error('the collector did not take a batch of spans'));
      this.pauseMs = Math.min(Math.max(2 * this.pauseMs, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
      // The next batch is made when this one is done. Done is all the processor is told: told of a failure it forgets that
      // it is exporting, and has two batches under way after the first, four after the next, up to the exporter's limit.
      void delay(this.pauseMs, undefined, { ref: false, signal: this.ending.signal })
        .catch(() => undefined)
        .then(() => done({ code: core.ExportResultCode.SUCCESS }));
    });
  }
}
