import type { Environment } from './read-config.js';

/** What the OTEL_* variables ask for. The SDK reads their values itself. */
export interface TelemetryRequest {
  /** An endpoint or a trace exporter is named. */
  readonly traces: boolean;
  /** Metrics are pushed besides being served at /metrics. */
  readonly pushMetrics: boolean;
  /** OTEL_SERVICE_NAME. */
  readonly serviceName: string | undefined;
  /** OTEL_SDK_DISABLED. */
  readonly disabled: boolean;
}

/** Reads which telemetry is asked for. */
export function readTelemetryRequest(environment: Environment = process.env): TelemetryRequest {
  const word = (name: string) => environment[name]?.trim().toLowerCase() ?? '';
  const endpoint = word('OTEL_EXPORTER_OTLP_ENDPOINT') !== '';
  const traces = word('OTEL_TRACES_EXPORTER');
  const metrics = word('OTEL_METRICS_EXPORTER');
  return {
    traces: traces !== 'none' && (traces !== '' || endpoint || word('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') !== ''),
    pushMetrics:
      metrics === 'otlp' || (metrics === '' && (endpoint || word('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT') !== '')),
    serviceName: environment['OTEL_SERVICE_NAME']?.trim() || undefined,
    disabled: word('OTEL_SDK_DISABLED') === 'true',
  };
}
