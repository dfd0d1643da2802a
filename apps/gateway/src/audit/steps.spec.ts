import type { RunTrace } from '@codedock/store';
import { stepsOf } from './steps.js';
import type { WaterfallGate } from './waterfall.js';

const created = Date.parse('2026-01-01T00:00:00.000Z');
const at = (ms: number) => new Date(created + ms).toISOString();
const mark = (type: RunTrace['marks'][number]['type'], ms: number, reason?: string) => ({
  type,
  turnId: 't1',
  occurredAt: at(ms),
  ...(reason === undefined ? {} : { reason }),
});
const trace = (more: Partial<RunTrace>): RunTrace => ({
  run: { createdAt: at(0) } as RunTrace['run'],
  turns: [{ id: 't1', iteration: 1, status: 'open', usage: { inputTokens: 0, outputTokens: 0 }, startedAt: at(10) }],
  calls: [{ id: 'c1', turnId: 't1', name: 'ping' } as RunTrace['calls'][number]],
  executions: [],
  marks: [],
  records: [],
  ...more,
});

describe('stepsOf', () => {
  it('places turns, model calls and executions, the model after the gate of its context', () => {
    const gate = { gate: 'transformContext', turnId: 't1', atMs: 12, durationMs: 8 } as WaterfallGate;
    const steps = stepsOf(
      trace({
        marks: [mark('turn.started', 10), mark('turn.restarted', 40, 'model_retry'), mark('assistant.completed', 60)],
        executions: [{ callId: 'c1', n: 1, state: 'succeeded', startedAt: at(70), endedAt: at(75) }],
      }),
      [gate],
    );
    expect(steps).toEqual([
      { kind: 'turn', turnId: 't1', iteration: 1, atMs: 10, durationMs: null, outcome: 'open' },
      { kind: 'model', turnId: 't1', iteration: 1, atMs: 20, durationMs: 40, outcome: 'completed' },
      {
        kind: 'tool',
        turnId: 't1',
        iteration: 1,
        callId: 'c1',
        tool: 'ping',
        n: 1,
        atMs: 70,
        durationMs: 5,
        outcome: 'succeeded',
      },
    ]);
  });

  it('shows a call that a lost attempt took along, and one that is still open', () => {
    const marks = [mark('turn.started', 10), mark('turn.restarted', 90, 'attempt')];
    const models = stepsOf(trace({ marks }), []).filter(({ kind }) => kind === 'model');
    expect(models).toMatchObject([
      { atMs: 10, durationMs: null, outcome: 'lost' },
      { atMs: 90, durationMs: null, outcome: 'open' },
    ]);
  });
});
