import type { RunTrace, StoredRecord } from '@codedock/store';
import { waterfallOf } from './waterfall.js';

const created = Date.parse('2026-01-01T00:00:00.000Z');

function record(id: string, storedMs: number, more: Partial<StoredRecord>): StoredRecord {
  return {
    id,
    gate: 'beforeInput',
    hook: 'policy',
    outcome: 'continued',
    startedMs: 0,
    durationMs: 5,
    queueMs: 0,
    occurredAt: new Date(created + storedMs).toISOString(),
    ...more,
  };
}

function trace(records: StoredRecord[]): RunTrace {
  return {
    run: { createdAt: new Date(created).toISOString() } as RunTrace['run'],
    turns: [{ id: 't1', iteration: 1, status: 'completed', usage: { inputTokens: 0, outputTokens: 0 }, startedAt: '' }],
    calls: [{ id: 'c1', name: 'ping' } as RunTrace['calls'][number]],
    executions: [],
    marks: [],
    records,
  };
}

describe('waterfallOf', () => {
  it('places each question before the moment its gate was stored', () => {
    const gates = waterfallOf(
      trace([
        record('1', 0, {}),
        record('2', 100, { gate: 'beforeToolCall', turnId: 't1', callId: 'c1', startedMs: 0, durationMs: 10 }),
        record('3', 100, { gate: 'beforeToolCall', turnId: 't1', callId: 'c1', startedMs: 10, durationMs: 20 }),
      ]),
    );
    expect(gates.map((gate) => gate.atMs)).toEqual([0, 70, 80]);
    expect(gates[1]).toMatchObject({ iteration: 1, tool: 'ping' });
    expect(gates[0]).not.toHaveProperty('iteration');
  });
});
