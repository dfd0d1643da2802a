import type { RunTrace } from '@codedock/store';
import type { WaterfallGate } from './waterfall.js';

/** Something that lasted beside the gates: a turn, a model call, one execution of a tool. */
export interface TraceStep {
  readonly kind: 'turn' | 'model' | 'tool';
  readonly turnId: string;
  readonly iteration?: number;
  readonly callId?: string;
  readonly tool?: string;
  readonly n?: number;
  /** Milliseconds from the run's creation, at least 0. */
  readonly atMs: number;
  /** Null while it lasts, or where nobody knows how it ended. */
  readonly durationMs: number | null;
  readonly outcome: string;
}

/** Turns, model calls and executions of a run in order, from what the ledger says of them. */
export function stepsOf(trace: RunTrace, gates: readonly WaterfallGate[]): TraceStep[] {
  const at = (time: string) => Math.max(0, Date.parse(time) - Date.parse(trace.run.createdAt));
  const between = (from: number, to: string | undefined) => ({
    atMs: from,
    durationMs: to === undefined ? null : Math.max(0, at(to) - from),
  });
  const iterations = new Map(trace.turns.map(({ id, iteration }) => [id, iteration]));
  const calls = new Map(trace.calls.map((call) => [call.id, call]));
  const turns = trace.turns.map(({ id, iteration, status, startedAt, completedAt }) => ({
    kind: 'turn' as const,
    turnId: id,
    iteration,
    ...between(at(startedAt), completedAt),
    outcome: status,
  }));
  const tools = trace.executions.flatMap(({ callId, n, state, startedAt, endedAt }) => {
    const call = calls.get(callId);
    if (call === undefined) return [];
    const { turnId, name } = call;
    return [
      {
        kind: 'tool' as const,
        turnId,
        ...placed(iterations, turnId),
        callId,
        tool: name,
        n,
        ...between(at(startedAt), endedAt),
        outcome: state,
      },
    ];
  });
  return [...turns, ...modelCalls(trace, gates, at, iterations), ...tools].sort((a, b) => a.atMs - b.atMs);
}

/** A turn asks the model when it begins, and again when an attempt had to begin it anew; its own retries are one call. */
function modelCalls(
  { marks }: RunTrace,
  gates: readonly WaterfallGate[],
  at: (time: string) => number,
  iterations: ReadonlyMap<string, number>,
): TraceStep[] {
  const steps: TraceStep[] = [];
  const open = new Map<string, number>();
  for (const { type, turnId, reason, occurredAt } of marks) {
    const asked = open.get(turnId);
    if (type === 'assistant.completed' && asked !== undefined) {
      const begun = afterContext(gates, turnId, asked, at(occurredAt));
      steps.push(modelCall(turnId, iterations, begun, at(occurredAt) - begun, 'completed'));
      open.delete(turnId);
    } else if (type === 'turn.started') open.set(turnId, at(occurredAt));
    else if (type === 'turn.restarted' && reason === 'attempt') {
      if (asked !== undefined) steps.push(modelCall(turnId, iterations, asked, null, 'lost'));
      open.set(turnId, at(occurredAt));
    }
  }
  for (const [turnId, asked] of open) steps.push(modelCall(turnId, iterations, asked, null, 'open'));
  return steps;
}

/** The context is built, and its gate asked, between the beginning of a turn and the call. */
function afterContext(gates: readonly WaterfallGate[], turnId: string, from: number, to: number): number {
  return gates
    .filter((gate) => gate.gate === 'transformContext' && gate.turnId === turnId)
    .map(({ atMs, durationMs }) => atMs + durationMs)
    .filter((end) => end > from && end <= to)
    .reduce((latest, end) => Math.max(latest, end), from);
}

function modelCall(
  turnId: string,
  iterations: ReadonlyMap<string, number>,
  atMs: number,
  durationMs: number | null,
  outcome: string,
): TraceStep {
  return { kind: 'model', turnId, ...placed(iterations, turnId), atMs, durationMs, outcome };
}

function placed(iterations: ReadonlyMap<string, number>, turnId: string): { iteration?: number } {
  const iteration = iterations.get(turnId);
  return iteration === undefined ? {} : { iteration };
}
