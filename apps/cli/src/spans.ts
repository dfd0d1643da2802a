import { type ReceivedSpan, type SpanNode, spanForest } from '@codedock/trace-receiver';
import { drawn, type WaterfallLine } from './waterfall.js';

/** Every span of the traces a run is in. @throws when nobody keeps them. */
export async function spansOfRun(url: string, run: string): Promise<readonly ReceivedSpan[]> {
  const response = await fetch(`${url}/traces?run=${encodeURIComponent(run)}`, {
    headers: { connection: 'close' },
  }).catch(() => undefined);
  if (response?.ok !== true) {
    throw new Error(`No traces are kept at ${url}: run this in the folder of a running \`npm start -- --traces\`.`);
  }
  return ((await response.json()) as { readonly spans: readonly ReceivedSpan[] }).spans;
}

/** Spans as trees with a bar each; times count from the earliest one. */
export function spanWaterfall(spans: readonly ReceivedSpan[]): string {
  const begun = Math.min(...spans.map(({ startMs }) => startMs));
  const lines = (nodes: readonly SpanNode[], depth: number): WaterfallLine[] =>
    nodes.flatMap(({ span, children }) => [lineOf(span, depth, begun), ...lines(children, depth + 1)]);
  return drawn(['span', 'process', 'outcome'], lines(spanForest(spans), 0));
}

function lineOf(span: ReceivedSpan, depth: number, begun: number): WaterfallLine {
  const { attributes } = span;
  const outcome = attributes['codedock.outcome'] ?? attributes['codedock.decision'];
  return {
    name: `${'  '.repeat(depth)}${printable(span.name)}`,
    who: printable(span.service.replace(/^codedock-/, '')),
    outcome: outcome === undefined ? (span.failed ? 'failed' : '') : printable(String(outcome)),
    atMs: span.startMs - begun,
    durationMs: span.endMs - span.startMs,
    ...(span.message === '' ? {} : { reason: printable(span.message) }),
  };
}

/** Names and messages come from other processes, plugins among them: a terminal is not theirs to control. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ').slice(0, 120);
}
