import type { RunTrace, StoredRecord } from '@codedock/store';

/** One question to one hook, placed in its run. */
export interface WaterfallGate extends StoredRecord {
  /** Milliseconds from the run's creation to the question, at least 0. */
  readonly atMs: number;
  readonly iteration?: number;
  readonly tool?: string;
}

/**
 * The gates of a run in order. Records carry times within their gate; a gate's own end is taken to be when it was
 * stored, so that `atMs` is exact to the time between the gate's answer and its commit.
 */
export function waterfallOf({ run, turns, calls, records }: RunTrace): WaterfallGate[] {
  const created = Date.parse(run.createdAt);
  const iterations = new Map(turns.map((turn) => [turn.id, turn.iteration]));
  const tools = new Map(calls.map((call) => [call.id, call.name]));
  const lengths = new Map<string, number>();
  for (const record of records) {
    const gate = gateKey(record);
    lengths.set(gate, Math.max(lengths.get(gate) ?? 0, record.startedMs + record.durationMs));
  }
  return records.map((record) => {
    const stored = Date.parse(record.occurredAt) - created;
    const iteration = record.turnId === undefined ? undefined : iterations.get(record.turnId);
    const tool = record.callId === undefined ? undefined : tools.get(record.callId);
    return {
      ...record,
      atMs: Math.max(0, stored - (lengths.get(gateKey(record)) ?? 0) + record.startedMs),
      ...(iteration === undefined ? {} : { iteration }),
      ...(tool === undefined ? {} : { tool }),
    };
  });
}

function gateKey({ gate, turnId, callId, attempt, occurredAt }: StoredRecord): string {
  return [gate, turnId, callId, attempt, occurredAt].join(' ');
}
