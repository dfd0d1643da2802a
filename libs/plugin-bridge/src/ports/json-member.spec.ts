import fc from 'fast-check';
import { rawMember } from './json-member.js';

/** JSON text with arbitrary white space and escapes that parses to the value. */
function spelled(value: unknown, blank: string): string {
  if (Array.isArray(value))
    return `[${blank}${value.map((item) => spelled(item, blank)).join(`${blank},${blank}`)}${blank}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([key, item]) => `${escaped(key)}${blank}:${blank}${spelled(item, blank)}`,
    );
    return `{${blank}${members.join(`${blank},${blank}`)}${blank}}`;
  }
  return typeof value === 'string' ? escaped(value) : JSON.stringify(value);
}

function escaped(text: string): string {
  return JSON.stringify(text).replace(/[a-e]/g, (letter, at: number, all: string) =>
    all[at - 1] === '\\' || /\\u.{0,3}$/.test(all.slice(0, at))
      ? letter
      : `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

describe('the raw text of a member', () => {
  it('is the very slice that parses to the member, whatever surrounds it', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.jsonValue(),
        fc.constantFrom('', ' ', '\n\t', '\r\n  '),
        (rest, body, blank) => {
          const object = { ...rest, body };
          const text = `${blank}${spelled(object, blank)}${blank}`;
          const raw = rawMember(text, 'body');
          expect(raw).toBe(spelled(body, blank));
          expect(JSON.parse(raw as string)).toEqual(JSON.parse(JSON.stringify(body)));
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    ['{"body":1.0}', '1.0'],
    ['{"body":12345678901234567890}', '12345678901234567890'],
    ['{"body":1e400,"a":1}', '1e400'],
    ['{"body":{"2":1,"1":2}}', '{"2":1,"1":2}'],
    ['{"a":"\\"body\\":","body":"x\\\\"}', '"x\\\\"'],
    ['{"a":{"body":1},"body":[{"body":2}]}', '[{"body":2}]'],
    ['{"body":1,"body":2}', '2'],
    ['{"\\u0062ody":true}', 'true'],
    ['{"bodyx":1,"body":"}"}', '"}"'],
  ])('%s', (text, raw) => {
    expect(rawMember(text, 'body')).toBe(raw);
  });

  it('is undefined where the object has no such member', () => {
    expect(rawMember('{"a":{"body":1}}', 'body')).toBeUndefined();
    expect(rawMember('{}', 'body')).toBeUndefined();
    expect(rawMember('[]', 'body')).toBeUndefined();
  });
});
