import { table } from './output.js';

/** Answer of `GET /v1/runs/{id}/trace`. */
export interface RunTrace {
  readonly runId: string;
  readonly gates: readonly {
    readonly gate: string;
    readonly hook: string;
    readonly outcome: string;
    /** Milliseconds after the run was created. */
    readonly atMs: number;
    readonly durationMs: number;
    readonly queueMs?: number;
    readonly reason?: string;
  }[];
  /** Absent from gateways of a former version. */
  readonly steps?: readonly {
    readonly kind: 'turn' | 'model' | 'tool';
    readonly iteration?: number;
    readonly tool?: string;
    readonly n?: number;
    readonly outcome: string;
    readonly atMs: number;
    readonly durationMs: number | null;
  }[];
}

/** One line of a waterfall. Times in milliseconds; no duration = it has no known end. */
export interface WaterfallLine {
  readonly name: string;
  readonly who: string;
  readonly outcome: string;
  readonly atMs: number;
  readonly durationMs: number | null;
  readonly reason?: string | undefined;
}

const WIDTH = 24;

/** Gates, turns, model calls and tools in order with a bar each: where it began and how long it took. */
export function waterfall({ gates, steps = [] }: RunTrace): string {
  const lines: WaterfallLine[] = [
    ...steps.map(({ kind, iteration, tool, n, ...times }) => ({
      name: kind === 'turn' ? `turn ${iteration ?? '?'}` : kind,
      who: tool === undefined ? '' : `${tool}${n === undefined || n === 1 ? '' : ` (${n})`}`,
      ...times,
    })),
    ...gates.map(({ gate, hook, ...times }) => ({ name: gate, who: hook, ...times })),
  ];
  return drawn(
    ['what', 'who', 'outcome'],
    lines.sort((a, b) => a.atMs - b.atMs),
  );
}

/** The lines as a table with bars; `heads` are those of name, who and outcome. */
export function drawn(heads: readonly [string, string, string], lines: readonly WaterfallLine[]): string {
  const end = Math.max(1, ...lines.map(({ atMs, durationMs }) => atMs + (durationMs ?? 0)));
  const rows = lines.map(({ name, who, outcome, atMs, durationMs, reason }) => {
    const from = Math.min(WIDTH - 1, Math.floor((atMs / end) * WIDTH));
    const length = Math.max(1, Math.round(((durationMs ?? end - atMs) / end) * WIDTH));
    const bar = `${' '.repeat(from)}${'▇'.repeat(Math.min(length, WIDTH - from))}`.padEnd(WIDTH);
    return [name, who, outcome, durationMs === null ? '–' : durationMs.toFixed(2), bar, reason];
  });
  return table([...heads, 'ms', 'when', 'reason'], rows);
}
