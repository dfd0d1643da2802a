import { readTelemetryEnvironment } from './telemetry-environment.js';

test('spans are sent only where a collector is named and nothing is switched off', () => {
  const wanted = (env: Record<string, string>) => readTelemetryEnvironment(env).traces;
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
  expect(wanted({})).toBe(false);
  expect(wanted({ OTEL_EXPORTER_OTLP_ENDPOINT: '' })).toBe(false);
  expect(wanted(endpoint)).toBe(true);
  expect(wanted({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/v1/traces' })).toBe(true);
  expect(wanted({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBe(false);
  expect(wanted({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toBe(false);
  expect(readTelemetryEnvironment({ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }).grpc).toBe(true);
});
