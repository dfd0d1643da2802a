import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { SpanWriter, TraceHeaders } from './span-writer.js';

/**
 * Sends spans over OTLP (HTTP, JSON) as the OTEL_* variables say, and makes OpenTelemetry's API work in this process, so
 * that spans of the plugin's own code stand inside. Spans wait in a bounded queue; a collector that is down costs them only.
 */
export function otlpSpans(plugin: {
  readonly service: string;
  readonly name: string;
  readonly version: string;
}): SpanWriter {
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      'service.name': plugin.service,
      'service.version': plugin.version,
    }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
  const tracer = provider.getTracer('codedock-plugin');
  return {
    during(name, parent, work) {
      const from = propagation.extract(ROOT_CONTEXT, parent);
      const span = tracer.startSpan(
        name,
        { kind: SpanKind.SERVER, attributes: { 'codedock.plugin': plugin.name } },
        from,
      );
      return context.with(trace.setSpan(from, span), async () => {
        try {
          return await work();
        } catch (error) {
          span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : 'error' });
          throw error;
        } finally {
          span.end();
        }
      });
    },
    headers() {
      const headers: TraceHeaders = {};
      propagation.inject(context.active(), headers);
      return headers;
    },
    async close(timeoutMs) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, timeoutMs);
      });
      await Promise.race([provider.shutdown().catch(() => undefined), late]);
      clearTimeout(timer);
    },
  };
}
