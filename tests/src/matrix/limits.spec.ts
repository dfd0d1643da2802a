import { judgesFigures, missed } from './limits.js';

const LIMITS = { slow_ms: { min: 1_850, max: 2_100 }, leaks: { max: 0 } };

it.each([
  [{ slow_ms: 1_850, leaks: 0 }, []],
  [{ slow_ms: 2_100, leaks: 0 }, []],
  [{ slow_ms: 1_849, leaks: 0 }, ['slow_ms is 1849, it has to be at least 1850 and at most 2100']],
  [{ slow_ms: 2_000, leaks: 1 }, ['leaks is 1, it has to be at most 0']],
  [{ slow_ms: Number.NaN }, [expect.stringContaining('slow_ms is NaN'), expect.stringContaining('leaks is NaN')]],
])('%j misses what is out of bounds or not there', (figures, lines) => {
  expect(missed(figures as Record<string, number>, LIMITS)).toEqual(lines);
});

it('judges unless it is told not to', () => {
  expect(judgesFigures(['node', 'gates.js', '--quick'])).toBe(true);
  expect(judgesFigures(['node', 'gates.js', '--no-limits'])).toBe(false);
});
