import { captureContent, contentAttribute } from './content.js';

afterEach(() => captureContent(false));

test('nothing that was said is taken, nor even asked for, until content is switched on', () => {
  const value = jest.fn();
  expect(contentAttribute('gen_ai.input.messages', value)).toEqual({});
  expect(value).not.toHaveBeenCalled();
});

describe('with content switched on', () => {
  beforeEach(() => captureContent(true));

  test('what was said is an attribute, as JSON', () => {
    const message = { role: 'user', parts: [{ type: 'text', content: 'hello "you"' }] };
    const attributes = contentAttribute('gen_ai.input.messages', () => [message]);
    expect(Object.keys(attributes)).toEqual(['gen_ai.input.messages']);
    expect(JSON.parse(String(attributes['gen_ai.input.messages']))).toEqual([message]);
  });

  test('nothing said is an empty text', () => {
    expect(contentAttribute('gen_ai.tool.call.result', () => undefined)).toEqual({ 'gen_ai.tool.call.result': '' });
  });

  test.each([
    'sk-proj-abcdefghijklmnop123',
    'AKIAIOSFODNN7EXAMPLE',
    'postgres://u:hunter2@db/x',
    'Bearer abcdefgh1234',
  ])('what looks like a secret is replaced: %s', (secret) => {
    const { text } = contentAttribute('text', () => ({ said: `before ${secret} after` }));
    expect(text).toContain('[redacted]');
    expect(text).toMatch(/before .* after/);
    expect(text).not.toContain(secret);
  });

  test('what is longer than 32 Ki characters is cut and shows it; what just fits is whole', () => {
    // Two of the characters are the quotes.
    const { fits } = contentAttribute('fits', () => 'x'.repeat(32_768 - 2));
    expect(fits).toBe(`"${'x'.repeat(32_766)}"`);
    const { cut } = contentAttribute('cut', () => 'x'.repeat(32_768 - 1));
    expect(cut).toBe(`"${'x'.repeat(32_766)}…`);
  });

  test('a secret is replaced before the cut, so that no half of one is left at it', () => {
    const secret = 'sk-proj-abcdefghijklmnop123';
    const { text } = contentAttribute('text', () => `${'y '.repeat(16_378)} ${secret} ${'z '.repeat(100)}`);
    expect(String(text)).toHaveLength(32_768);
    expect(text).not.toContain('sk-proj');
  });
});
