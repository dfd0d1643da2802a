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
    expect(lines[1]).toMatch(/^beforeInput {5}redact {2}changed {3}5\.00 {3}▇/);
    expect(lines[2]?.indexOf('▇')).toBeGreaterThan(lines[1]?.indexOf('▇') ?? 0);
    expect(lines[2]).toMatch(/no$/);
  });

  it('says so when no gate was asked', () => {
    expect(waterfall({ runId: 'r', gates: [] })).toBe('none');
  });
});
