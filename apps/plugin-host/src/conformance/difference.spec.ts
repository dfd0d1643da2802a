import { difference } from './difference.js';

describe('the difference of two values', () => {
  it.each([
    [{ a: [1, { b: 'x' }] }, { a: [1, { b: 'x' }] }],
    [{ id: /^m\d$/, absent: undefined }, { id: 'm1' }],
  ])('is none', (expected, actual) => {
    expect(difference(expected, actual)).toBeUndefined();
  });

  it.each<[unknown, unknown, string]>([
    [{ a: [1, { b: 'x' }] }, { a: [1, { b: 'y' }] }, 'a[1].b is "y", expected "x"'],
    [{ a: 1 }, { a: 1, b: null }, 'b is null, expected absent'],
    [{ a: 1 }, {}, 'a is absent, expected 1'],
    [[1], [1, 2], 'it has 2 entries, expected 1'],
    [{ id: /^m/ }, { id: 7 }, 'id is 7, expected a text like /^m/'],
    [1, '1', 'it is "1", expected 1'],
  ])('is told with its place', (expected, actual, text) => {
    expect(difference(expected, actual)).toBe(text);
  });

  it('does not show megabytes', () => {
    expect(difference('x'.repeat(9_999), '')?.length).toBeLessThan(300);
  });
});
