import fc from 'fast-check';
import { integer, isLoopback, keyBytes, originList, parseDuration, parseSize, url } from './value-types.js';

test.each([
  ['500ms', 500],
  ['2s', 2_000],
  ['1.5s', 1_500],
  ['5m', 300_000],
  ['24h', 86_400_000],
  ['7d', 604_800_000],
  ['250', 250],
  ['2 s', 2_000],
  ['', undefined],
  ['s', undefined],
  ['-1s', undefined],
  ['2x', undefined],
  ['1e3', undefined],
  ['2constructor', undefined],
])('duration %j', (text, expected) => {
  expect(parseDuration(text)).toBe(expected);
});

test.each([
  ['4MiB', 4_194_304],
  ['64KiB', 65_536],
  ['1MB', 1_000_000],
  ['10', 10],
  ['4mib', undefined],
  ['MiB', undefined],
])('size %j', (text, expected) => {
  expect(parseSize(text)).toBe(expected);
});

test('a number of any unit is that many of its milliseconds', () => {
  fc.assert(
    fc.property(fc.nat(100_000), (count) => {
      expect(parseDuration(`${count}s`)).toBe(parseDuration(`${count * 1_000}ms`));
      expect(parseDuration(`${count}`)).toBe(count);
    }),
  );
});

test('whole numbers only', () => {
  expect(integer().schema.safeParse('1.5').success).toBe(false);
  expect(integer().schema.safeParse('0x10').success).toBe(false);
  expect(integer({ min: -5 }).schema.parse('-5')).toBe(-5);
});

test('URLs of the named protocols only', () => {
  expect(url(['https:']).schema.safeParse('http://x').success).toBe(false);
  expect(url(['https:']).schema.parse('https://x/v1')).toBe('https://x/v1');
});

test('origins without a path', () => {
  expect(originList().schema.parse('https://a.example, http://localhost:3000')).toHaveLength(2);
  expect(originList().schema.safeParse('https://a.example/').success).toBe(false);
  expect(originList().schema.safeParse('*').success).toBe(false);
});

test('loopback hosts', () => {
  expect(['127.0.0.1', '127.9.9.9', '::1', 'localhost'].every(isLoopback)).toBe(true);
  expect(['0.0.0.0', '::', '128.0.0.1', '127.0.0.1.example.com', 'gateway'].some(isLoopback)).toBe(false);
});

describe('a key', () => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 8));

  it.each([
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
    bytes.toString('base64'),
    bytes.toString('base64url'),
  ])('is read from %s', (text) => {
    expect(keyBytes(text, 32)).toEqual(bytes);
  });

  it.each([
    '',
    'x',
    bytes.toString('hex').slice(2),
    `${bytes.toString('base64')}AA`,
    `${bytes.toString('hex')} `,
    'zz'.repeat(32),
  ])('is not %s', (text) => {
    expect(keyBytes(text, 32)).toBeUndefined();
  });
});
