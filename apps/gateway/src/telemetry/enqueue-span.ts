import { ATTRIBUTES, activeTrace, openSpan, type TraceCarrier } from '@codedock/platform';
import { context, type Span, SpanKind, trace } from '@opentelemetry/api';

/** The span of accepting and queueing one run; it begins when the input has passed its gate. */
export class EnqueueSpan {
  #span: Span | undefined;

  /** Begins the span; answers what the run's own trace is linked to. */
  begin(): TraceCarrier {
    const { span, within } = openSpan('run enqueue', { kind: SpanKind.PRODUCER });
    this.#span = span;
    return context.with(within, activeTrace);
  }

  /** Ends it, if it began; the run's id is told to the request's span as well. */
  end(runId: string | undefined): void {
    if (runId !== undefined) {
      for (const span of [this.#span, trace.getActiveSpan()]) span?.setAttribute(ATTRIBUTES.runId, runId);
    }
    this.#span?.end();
  }
}
