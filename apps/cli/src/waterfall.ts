import { table } from './output.js';

/** Answer of `GET /v1/runs/{id}/trace`. */
export interface RunTrace {
  readonly runId: string;
  readonly gates: readonly {
    readonly gate: string;
    readonly hook: string;
    readonly outcome: string;
    /** Milliseconds after the run's first record. */
    readonly atMs: number;
    readonly durationMs: number;
    readonly queueMs?: number;
    readonly reason?: string;
  }[];
}

const WIDTH = 24;

/** Gates in order with a bar each: where it began and how long it took, relative to the whole. */
export function waterfall(trace: RunTrace): string {
  const end = Math.max(1, ...trace.gates.map(({ atMs, durationMs }) => atMs + durationMs));
  const rows = trace.gates.map(({ gate, hook, outcome, atMs, durationMs, reason }) => {
    const from = Math.min(WIDTH - 1, Math.floor((atMs / end) * WIDTH));
    const length = Math.max(1, Math.round((durationMs / end) * WIDTH));
    const bar = `${' '.repeat(from)}${'▇'.repeat(Math.min(length, WIDTH - from))}`.padEnd(WIDTH);
    return [gate, hook, outcome, durationMs.toFixed(2), bar, reason];
  });
  return table(['gate', 'plugin', 'decision', 'ms', 'when', 'reason'], rows);
}
