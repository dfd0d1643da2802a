import { metrics } from '@codedock/platform';
import type { gate, Port } from '@codedock/proto';
import { trace } from '@opentelemetry/api';
import { shadowPending } from './shadow.js';

/** Writes one metric for each plugin that was asked. */
export function observeOutcomes(port: Port, outcomes: readonly gate.Outcome[]): void {
  const span = trace.getActiveSpan();
  for (const { plugin, outcome, durationMs } of outcomes) {
    if (outcome !== shadowPending) metrics.pluginDuration.record(durationMs, { plugin, port, outcome }, span);
  }
}
