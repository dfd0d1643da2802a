import { countRunOut, leasesIn } from './told-leases.js';

const LEASE_MS = 3_000;
const line = (attempt: number, asked: number, answered: number, run = 'r') =>
  `lease of ${run} attempt ${attempt} asked ${asked} answered ${answered}\n`;
const runOut = (...outputs: readonly string[]) => countRunOut(leasesIn(outputs, 'r'), LEASE_MS);

test('a lease that was still alive when the run was taken has not run out', () => {
  expect(runOut(line(1, 0, 10) + line(1, 750, 760), line(2, 1_000, 1_010))).toBe(0);
  // Its last sign of life counts, however long ago it was taken.
  expect(runOut(line(1, 0, 10) + line(1, 9_000, 9_010), line(2, 11_900, 11_990))).toBe(0);
});

test('one without a sign of life for its time has, in whatever process the next was', () => {
  expect(runOut(line(1, 0, 10), line(2, 3_020, 3_030))).toBe(1);
  expect(runOut(line(1, 0, 10) + line(2, 3_020, 3_030), line(3, 9_000, 9_010))).toBe(2);
});

test('one whose runner died before it could tell counts; those of other runs and the first do not', () => {
  expect(runOut(line(1, 0, 10), line(3, 500, 510))).toBe(1);
  expect(runOut(line(1, 0, 10), line(2, 9_000, 9_010, 'other'), 'executing c of r\n')).toBe(0);
});
