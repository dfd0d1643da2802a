import fc from 'fast-check';
import { type JsonValue, jsonEqual } from './json.js';
import { isWellFormed, wellFormedJson, wellFormedText } from './well-formed.js';

// Any UTF-16 code units, broken pairs and NUL included.
const text = fc
  .array(fc.oneof(fc.nat(0xffff), fc.constantFrom(0, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0x41)), { maxLength: 12 })
  .map((units) => String.fromCharCode(...units));

describe('well-formed text', () => {
  it.each([
    ['plain 😀 text', 'plain 😀 text'],
    ['a\u0000b', 'a\ufffdb'],
    ['\ud800', '\ufffd'],
    ['\udc00', '\ufffd'],
    ['\ud800\ud800\udc00', '\ufffd\ud800\udc00'],
    ['\udc00\ud800', '\ufffd\ufffd'],
  ])('%j becomes %j', (given, expected) => expect(wellFormedText(given)).toBe(expected));

  it('is what an encoder to UTF-8 makes of it, with NUL replaced too', () => {
    fc.assert(
      fc.property(text, (given) => {
        const viaUtf8 = new TextDecoder('utf-8', { ignoreBOM: true }).decode(new TextEncoder().encode(given));
        expect(wellFormedText(given)).toBe(viaUtf8.replaceAll('\u0000', '\ufffd'));
        expect(isWellFormed(given)).toBe(wellFormedText(given) === given);
        expect(isWellFormed(wellFormedText(given))).toBe(true);
      }),
    );
  });

  it('says the same when asked twice', () => {
    expect([isWellFormed('\u0000'), isWellFormed('\u0000')]).toEqual([false, false]);
  });
});

describe('well-formed JSON', () => {
  it('repairs keys and strings at every depth and returns the same reference when nothing is wrong', () => {
    const good = { a: ['x', { b: 1 }] };
    expect(wellFormedJson(good)).toBe(good);
    expect(wellFormedJson({ 'k\u0000': ['\ud800', 1, null] })).toEqual({ 'k\ufffd': ['\ufffd', 1, null] });
  });

  it('leaves no text that a store refuses', () => {
    const { tree } = fc.letrec<{ tree: JsonValue }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 3 },
        text,
        fc.integer(),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(text, tie('tree'), { maxKeys: 3 }),
      ) as fc.Arbitrary<JsonValue>,
    }));
    const texts = (value: JsonValue): string[] => {
      if (typeof value === 'string') return [value];
      if (typeof value !== 'object' || value === null) return [];
      return Array.isArray(value)
        ? value.flatMap(texts)
        : [...Object.keys(value), ...Object.values(value).flatMap(texts)];
    };
    fc.assert(
      fc.property(tree, (value) => {
        const repaired = wellFormedJson(value);
        expect(texts(repaired).every(isWellFormed)).toBe(true);
        if (texts(value).every(isWellFormed)) expect(repaired).toBe(value);
        expect(jsonEqual(wellFormedJson(repaired), repaired)).toBe(true);
      }),
    );
  });
});
