import type { RunSnapshot, TraceContext } from '@codedock/domain';
import { ATTRIBUTES, carrierOf, openSpan, type SpanIds, type SpanOptions, spanIdsOf } from '@codedock/platform';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { turnSpanName } from './run-spans.js';

/** Whether a run's first attempt begins a trace of its own or goes on with the request's. */
export type TraceRuns = 'link' | 'child';

/** What the trace of one attempt follows from. */
export interface AttemptOf {
  readonly snapshot: RunSnapshot;
  /** The span that queued the run; empty where the request was not traced. */
  readonly origin: TraceContext;
  readonly runs: TraceRuns;
  /** The former attempt never left the run: its runner died or was cut off. */
  readonly tookOver: boolean;
}

/**
 * The trace of one attempt. Its ids follow from run and attempt, so that the next attempt links to it without having
 * stored anything, and can write the spans that a dead runner took along.
 */
export class AttemptTrace {
  constructor(private readonly of: AttemptOf) {}

  /** How the span of the attempt begins. */
  get span(): SpanOptions {
    return this.spanOf(this.of.snapshot.attempt);
  }

  /** Ids of a turn's span in this attempt. */
  turnIds(iteration: number, attempt = this.of.snapshot.attempt): SpanIds {
    const { runId } = this.of.snapshot;
    return { ...this.idsOf(attempt), spanId: spanIdsOf(`run ${runId} attempt ${attempt} turn ${iteration}`).spanId };
  }

  /** Writes the spans the former attempt could not end, so that what it had sent already hangs on something. */
  closeLost(): void {
    const { snapshot, tookOver } = this.of;
    const lost = snapshot.attempt - 1;
    if (!tookOver || lost < 1) return;
    const attributes = {
      [ATTRIBUTES.runId]: snapshot.runId,
      [ATTRIBUTES.sessionId]: snapshot.sessionId,
      [ATTRIBUTES.attempt]: lost,
      [ATTRIBUTES.outcome]: 'lost',
    };
    // When it began nobody has told; the time of former attempts is the best guess.
    const startTime = Date.now() - snapshot.elapsedMs;
    const { span, within } = openSpan('run execute', { ...this.spanOf(lost), attributes, startTime });
    if (snapshot.openTurn !== undefined) {
      const { iteration } = snapshot.openTurn;
      const ids = this.turnIds(iteration, lost);
      const turn = openSpan(turnSpanName(iteration), { ids, attributes, startTime }, within);
      turn.span.setStatus({ code: SpanStatusCode.ERROR, message: 'its runner was lost' });
      turn.span.end();
    }
    span.setStatus({ code: SpanStatusCode.ERROR, message: 'its runner was lost' });
    span.end();
  }

  private spanOf(attempt: number): SpanOptions {
    const { origin, runs } = this.of;
    const ids = this.idsOf(attempt);
    if (attempt === 1 && runs === 'child') return { kind: SpanKind.CONSUMER, parent: origin, ids };
    // A later attempt may come hours after the request: it is linked in any case.
    const links = attempt === 1 ? [origin] : [origin, carrierOf(this.idsOf(attempt - 1))];
    return { kind: SpanKind.CONSUMER, root: true, links, ids };
  }

  private idsOf(attempt: number): SpanIds {
    const own = spanIdsOf(`run ${this.of.snapshot.runId} attempt ${attempt}`);
    const origin = this.of.origin.traceparent?.split('-')[1];
    return attempt === 1 && this.of.runs === 'child' && origin !== undefined ? { ...own, traceId: origin } : own;
  }
}
