export {
  type CountMetric,
  type DurationMetric,
  type LevelMetric,
  metrics,
  type NoAttributes,
} from './metrics.js';
export { startTelemetry, type Telemetry, type TelemetryOptions } from './start-telemetry.js';
export {
  ATTRIBUTES,
  activeTrace,
  activeTraceId,
  inTrace,
  isTraced,
  recordFailure,
  type SpanOptions,
  type TraceCarrier,
  withSpan,
} from './tracing.js';
