import type { Environment } from './read-config.js';

const PROTOCOLS = ['http/protobuf', 'http/json', 'grpc'] as const;
/** Spans that wait for the collector at most, as the specification has it. */
const QUEUE_SIZE = 2_048;

/** How spans leave the process. */
export interface SpanExport {
  readonly exporter: 'otlp' | 'console';
  readonly protocol: (typeof PROTOCOLS)[number];
  /** Spans that wait at most; further ones are dropped and counted. */
  readonly queueSize: number;
}

/** What the OTEL_* variables ask for. The SDK reads their values itself. */
export interface TelemetryRequest {
  /** Present when an endpoint or a trace exporter is named. */
  readonly spans: SpanExport | undefined;
  /** Metrics are pushed besides being served at /metrics. */
  readonly pushMetrics: boolean;
  /** OTEL_SERVICE_NAME. */
  readonly serviceName: string | undefined;
  /** OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: spans may hold what users, models and tools said. */
  readonly content: boolean;
  /** OTEL_SDK_DISABLED. */
  readonly disabled: boolean;
}

/** Reads which telemetry is asked for. */
export function readTelemetryRequest(environment: Environment = process.env): TelemetryRequest {
  const word = (name: string) => environment[name]?.trim().toLowerCase() ?? '';
  const endpoint = word('OTEL_EXPORTER_OTLP_ENDPOINT') !== '';
  const traces = word('OTEL_TRACES_EXPORTER');
  const metrics = word('OTEL_METRICS_EXPORTER');
  const asked = traces !== 'none' && (traces !== '' || endpoint || word('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') !== '');
  const protocol = word('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL') || word('OTEL_EXPORTER_OTLP_PROTOCOL');
  const queueSize = Number(word('OTEL_BSP_MAX_QUEUE_SIZE'));
  return {
    spans: asked
      ? {
          exporter: traces === 'console' ? 'console' : 'otlp',
          protocol: PROTOCOLS.find((known) => known === protocol) ?? 'http/protobuf',
          queueSize: Number.isInteger(queueSize) && queueSize > 0 ? queueSize : QUEUE_SIZE,
        }
      : undefined,
    pushMetrics:
      metrics === 'otlp' || (metrics === '' && (endpoint || word('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT') !== '')),
    serviceName: environment['OTEL_SERVICE_NAME']?.trim() || undefined,
    content: word('OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT') === 'true',
    disabled: word('OTEL_SDK_DISABLED') === 'true',
  };
}
