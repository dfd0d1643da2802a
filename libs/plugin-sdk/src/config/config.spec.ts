import { z } from 'zod';
import { config } from './config.js';

const schema = z.object({ limit: z.number().int().default(3), words: z.array(z.string()).default([]) });

describe('config', () => {
  const before = process.env['CODEDOCK_PLUGIN_CONFIG'];
  afterEach(() => {
    if (before === undefined) delete process.env['CODEDOCK_PLUGIN_CONFIG'];
    else process.env['CODEDOCK_PLUGIN_CONFIG'] = before;
  });

  const read = (text: string) => {
    process.env['CODEDOCK_PLUGIN_CONFIG'] = text;
    return config(schema);
  };

  it('is checked and typed', () => {
    const { limit, words } = read('{"limit": 7}');
    expect([limit.toFixed(0), words]).toEqual(['7', []]);
  });

  it('is empty when plugin.json has none', () => {
    expect(read('')).toEqual({ limit: 3, words: [] });
    expect(config()).toEqual({});
  });

  it.each([
    ['{"limit": "x", "words": [1]}', /plugin.json "config" is wrong: limit: .*; words\.0: /],
    ['{', /is no JSON/],
    ['[]', /one JSON object/],
  ])('%s is refused with its cause', (text, message) => expect(() => read(text)).toThrow(message));
});
