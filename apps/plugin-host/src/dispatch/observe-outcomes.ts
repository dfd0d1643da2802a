import { ATTRIBUTES, metrics } from '@codedock/platform';
import type { gate, Port } from '@codedock/proto';
import { SpanStatusCode, trace } from '@opentelemetry/api';
import { shadowPending } from './shadow.js';

/** Writes one metric and, inside a trace, one span for each plugin that was asked; `startedAt` is the gate's start. */
export function observeOutcomes(port: Port, startedAt: number, outcomes: readonly gate.Outcome[]): void {
  const inTrace = trace.getActiveSpan() !== undefined;
  for (const { plugin, outcome, generation, startedMs, durationMs, reason } of outcomes) {
    if (outcome === shadowPending) continue;
    metrics.pluginDuration.record(durationMs, { plugin, port, outcome });
    if (!inTrace) continue;
    const span = trace.getTracer('codedock').startSpan(`plugin ${plugin} ${port}`, {
      startTime: startedAt + startedMs,
      attributes: {
        [ATTRIBUTES.plugin]: plugin,
        [ATTRIBUTES.port]: port,
        [ATTRIBUTES.outcome]: outcome,
        [ATTRIBUTES.pluginGeneration]: generation,
      },
    });
    if (isFailure(outcome)) span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
    span.end(startedAt + startedMs + durationMs);
  }
}

const failures: ReadonlySet<string> = new Set([
  'timeout',
  'crashed',
  'error',
  'invalid',
  'oversize',
  'unreachable',
  'not ready',
  'not asked',
]);

function isFailure(outcome: string): boolean {
  return failures.has(outcome.startsWith('shadow:') ? outcome.slice('shadow:'.length) : outcome);
}
