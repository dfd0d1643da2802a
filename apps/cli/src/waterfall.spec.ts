import { waterfall } from './waterfall.js';

describe('waterfall', () => {
  it('draws one line per record, placed by its start', () => {
    const lines = waterfall({
      runId: 'r',
      gates: [
        { gate: 'beforeInput', hook: 'redact', outcome: 'changed', atMs: 0, durationMs: 5 },
        { gate: 'beforeToolCall', hook: 'policy', outcome: 'blocked', atMs: 50, durationMs: 50, reason: 'no' },
      ],
    }).split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[1]).toMatch(/^beforeInput {5}redact {2}changed {2}5\.00 {3}▇/);
    expect(lines[2]?.indexOf('▇')).toBeGreaterThan(lines[1]?.indexOf('▇') ?? 0);
    expect(lines[2]).toMatch(/no$/);
  });

  it('shows turns, the model and tools between the gates', () => {
    const lines = waterfall({
      runId: 'r',
      gates: [{ gate: 'transformContext', hook: 'policy', outcome: 'continued', atMs: 11, durationMs: 1 }],
      steps: [
        { kind: 'turn', iteration: 1, outcome: 'completed', atMs: 10, durationMs: 90 },
        { kind: 'model', iteration: 1, outcome: 'completed', atMs: 12, durationMs: 50 },
        { kind: 'tool', tool: 'ping', n: 2, outcome: 'unknown', atMs: 70, durationMs: null },
      ],
    }).split('\n');
    expect(lines.map((line) => line.split(/ {2,}/).slice(0, 3).join('|'))).toEqual([
      'what|who|outcome',
      'turn 1|completed|90.00',
      'transformContext|policy|continued',
      'model|completed|50.00',
      'tool|ping (2)|unknown',
    ]);
    expect(lines[4]).toContain('–');
  });

  it('says so when no gate was asked', () => {
    expect(waterfall({ runId: 'r', gates: [] })).toBe('none');
  });
});
