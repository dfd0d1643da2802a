import { expiryAfter } from './expiry.js';

describe('expiryAfter', () => {
  it.each([
    ['90m', '1970-01-01T01:30:00.000Z'],
    ['12h', '1970-01-01T12:00:00.000Z'],
    ['30d', '1970-01-31T00:00:00.000Z'],
  ])('adds %s to now', (duration, expected) => {
    expect(expiryAfter(duration, 0)).toBe(expected);
  });

  it.each(['', '0d', '-1d', '1.5h', '3w', '99999d', 'soon', '1d '])('refuses %j and says what it takes', (duration) => {
    expect(() => expiryAfter(duration, 0)).toThrow(/30d/);
  });
});
