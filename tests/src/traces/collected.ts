import { eventually } from '@codedock/testkit';
import { type SpanNode, spanForest, type TraceReceiver } from '@codedock/trace-receiver';

/** Variables that send every span of a process to the receiver soon. */
export function exportTo(receiver: TraceReceiver): Record<string, string> {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_METRICS_EXPORTER: 'none',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
}

/** One line per span, indented by depth: `runner: turn 1`; `!` marks a failed one, `?` one whose parent is missing. */
export function drawn(nodes: readonly SpanNode[], depth = 0): string[] {
  return nodes.flatMap(({ span, children, orphan }) => {
    const mark = `${orphan ? ' ?' : ''}${span.failed ? ' !' : ''}`;
    const line = `${'  '.repeat(depth)}${span.service.replace('codedock-', '')}: ${span.name}${mark}`;
    return [line, ...drawn(children, depth + 1)];
  });
}

/** Every trace a run is in, once it looks as expected and has no orphan; fails with what there is instead. */
export async function expectTraces(receiver: TraceReceiver, runId: string, expected: readonly string[]): Promise<void> {
  await eventually(() => expect(drawn(spanForest(receiver.spansOfRun(runId)))).toEqual(expected), {
    timeoutMs: 30_000,
    what: `the spans of run ${runId}`,
  });
}
