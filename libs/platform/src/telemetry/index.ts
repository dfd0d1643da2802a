export { contentAttribute } from './content.js';
export { countedEnds } from './counted-ends.js';
export {
  type CountMetric,
  type DurationMetric,
  type LevelMetric,
  metrics,
  type NoAttributes,
} from './metrics.js';
export { pluginHostMetrics } from './plugin-host-metrics.js';
export { carrierOf, type SpanIds, spanIdsOf, type TraceCarrier } from './span-ids.js';
export { startTelemetry, type Telemetry, type TelemetryOptions } from './start-telemetry.js';
export {
  ATTRIBUTES,
  activeTrace,
  activeTraceId,
  inTrace,
  isTraced,
  openSpan,
  recordFailure,
  type SpanOptions,
  withSpan,
} from './tracing.js';
