import type { ReceivedSpan } from './received-span.js';

/** A span with what happened inside it, in order. */
export interface SpanNode {
  readonly span: ReceivedSpan;
  readonly children: readonly SpanNode[];
  /** It names a parent that is not there. */
  readonly orphan: boolean;
}

/** Spans as trees, earliest first: the ones that begin a trace, and the ones whose parent is missing. */
export function spanForest(spans: readonly ReceivedSpan[]): SpanNode[] {
  const known = new Map(spans.map((span) => [idOf(span.traceId, span.spanId), span]));
  const inside = new Map<string, ReceivedSpan[]>();
  const roots: ReceivedSpan[] = [];
  for (const span of known.values()) {
    const parent = span.parentSpanId === undefined ? undefined : idOf(span.traceId, span.parentSpanId);
    if (parent === undefined || !known.has(parent)) roots.push(span);
    else inside.set(parent, [...(inside.get(parent) ?? []), span]);
  }
  const node = (span: ReceivedSpan): SpanNode => ({
    span,
    children: inOrder(inside.get(idOf(span.traceId, span.spanId)) ?? []).map(node),
    orphan: span.parentSpanId !== undefined && !known.has(idOf(span.traceId, span.parentSpanId)),
  });
  return inOrder(roots).map(node);
}

function idOf(traceId: string, spanId: string): string {
  return `${traceId} ${spanId}`;
}

function inOrder(spans: readonly ReceivedSpan[]): ReceivedSpan[] {
  return [...spans].sort((a, b) => a.startMs - b.startMs || a.endMs - b.endMs);
}
