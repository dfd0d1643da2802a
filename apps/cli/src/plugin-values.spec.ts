import { secretFrom, settingValue } from './plugin-values.js';

async function* from(...chunks: string[]) {
  yield* chunks;
}

it.each([
  ['3', 3],
  ['{"a":[1]}', { a: [1] }],
  ['true', true],
  ['"3"', '3'],
  ['strict', 'strict'],
  ['', ''],
])('reads the value %j', (text, value) => {
  expect(settingValue(text)).toEqual(value);
});

it('reads a secret to the end of the input, without its last line end', async () => {
  expect(await secretFrom(from('top', ' secret\n'))).toBe('top secret');
  expect(await secretFrom(from('two\nlines\r\n'))).toBe('two\nlines');
  await expect(secretFrom(from('\n'))).rejects.toThrow('no secret on stdin');
  await expect(secretFrom(from('x'.repeat(70_000)))).rejects.toThrow('longer than');
});
