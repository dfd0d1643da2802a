import { boundedLabels } from './bounded-labels.js';

test('names grow series up to a bound, later and strange ones share one', () => {
  const bounded = boundedLabels<{ tool: string; outcome: string }>();
  expect(bounded({ tool: 'ping', outcome: 'ok' })).toEqual({ tool: 'ping', outcome: 'ok' });
  for (const strange of ['x'.repeat(129), 'a\nb', '"} 1', '\u001b[31m', '日本', '']) {
    expect(bounded({ tool: strange, outcome: 'ok' })).toEqual({ tool: 'other', outcome: 'ok' });
  }
  const seen = new Set<string>();
  for (let number = 0; number < 5_000; number += 1) seen.add(bounded({ tool: `t${number}`, outcome: 'ok' }).tool);
  expect(seen.size).toBe(200);
  expect(bounded({ tool: 'ping', outcome: 'ok' }).tool).toBe('ping');
  expect(bounded({ tool: 'new', outcome: 'late' })).toEqual({ tool: 'other', outcome: 'late' });
});
