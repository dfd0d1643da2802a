/** What the OTEL_* variables that plugin.json lets through ask for. OpenTelemetry reads the rest of them itself. */
export interface TelemetryEnvironment {
  /** A collector is named, and tracing is not switched off. */
  readonly traces: boolean;
  /** The collector is said to speak gRPC, which plugins do not. */
  readonly grpc: boolean;
  readonly serviceName: string | undefined;
}

/** Reads them. */
export function readTelemetryEnvironment(
  env: Readonly<Record<string, string | undefined>> = process.env,
): TelemetryEnvironment {
  const named = (...names: string[]) => names.map((name) => env[name]?.trim() || undefined).find((value) => value);
  return {
    traces:
      named('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT') !== undefined &&
      named('OTEL_SDK_DISABLED') !== 'true' &&
      named('OTEL_TRACES_EXPORTER') !== 'none',
    grpc: named('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL') === 'grpc',
    serviceName: named('OTEL_SERVICE_NAME'),
  };
}
