import { AsyncLocalStorage } from 'node:async_hooks';
import type { Metadata } from '@grpc/grpc-js';
import { readTelemetryEnvironment } from '../config/telemetry-environment.js';
import { log } from '../serve/log.js';
import type { SpanWriter, TraceHeaders } from './span-writer.js';

const NAMES = ['traceparent', 'tracestate'] as const;

/** The host's call that the current code answers. */
const asked = new AsyncLocalStorage<TraceHeaders>();
let writer: SpanWriter | undefined;

/**
 * The trace of the question that is being answered, as headers for calls of the plugin's own. Calls to the host carry
 * them by themselves. Empty where nothing is traced.
 */
export function traceHeaders(): TraceHeaders {
  return writer?.headers() ?? asked.getStore() ?? {};
}

/** Answers one call of the host as part of its trace. */
export function inTraceOf<T>(metadata: Metadata, name: string, work: () => Promise<T>): Promise<T> {
  const parent = Object.fromEntries(
    NAMES.flatMap((header) => {
      const [value] = metadata.get(header);
      return typeof value === 'string' ? [[header, value]] : [];
    }),
  ) as TraceHeaders;
  if (parent.traceparent === undefined) return work();
  return asked.run(parent, () => (writer === undefined ? work() : writer.during(name, parent, work)));
}

/** Puts the current trace into the metadata of a call to the host. */
export function addTrace(metadata: Metadata): Metadata {
  for (const [name, value] of Object.entries(traceHeaders())) metadata.set(name, value);
  return metadata;
}

/**
 * Sends spans of this plugin to the collector that OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT
 * names, where plugin.json lets the plugin have that variable. A plugin works the same without.
 */
export async function openTracing({ name, version }: { readonly name: string; readonly version: string }) {
  const { traces, grpc, serviceName } = readTelemetryEnvironment();
  if (!traces) return;
  if (grpc) {
    log.warn('no spans are sent: plugins speak OTLP over HTTP; give OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json');
    return;
  }
  try {
    // Loaded only where it is wanted: a plugin starts in the time its own code takes.
    const { otlpSpans } = await import('./otlp-spans.js');
    writer = otlpSpans({ service: serviceName ?? `codedock-plugin-${name}`, name, version });
  } catch (error) {
    log.warn('no spans are sent: tracing did not start', { reason: (error as Error).message });
  }
}

/** Sends what is left, for at most so many milliseconds. */
export async function closeTracing(timeoutMs: number): Promise<void> {
  await writer?.close(timeoutMs);
}
