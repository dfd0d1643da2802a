import fc from 'fast-check';
import { canonicalJson, digestOf, sealDigest } from './digest.js';
import { isJsonObject, type JsonObject, type JsonValue, jsonDepth, jsonEqual } from './json.js';

const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as JsonValue);
const shuffled = (value: JsonValue): JsonValue => {
  if (Array.isArray(value)) return value.map(shuffled);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, child]) => [key, shuffled(child)]),
  );
};

describe('jsonEqual', () => {
  it('is equality of canonical text', () => {
    fc.assert(fc.property(json, json, (a, b) => expect(jsonEqual(a, b)).toBe(canonicalJson(a) === canonicalJson(b))));
    fc.assert(fc.property(json, (a) => expect(jsonEqual(a, shuffled(a))).toBe(true)));
  });

  it.each<[JsonValue | undefined, JsonValue | undefined, boolean]>([
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
    [{ a: null }, {}, false],
    [{ a: 1 }, { b: 1 }, false],
    [[], {}, false],
    [[1, 2], [2, 1], false],
    [1, '1', false],
    [null, undefined, false],
    [undefined, undefined, true],
    [0, -0, true],
  ])('%j and %j: %s', (a, b, equal) => {
    expect(jsonEqual(a, b)).toBe(equal);
    expect(jsonEqual(b, a)).toBe(equal);
  });
});

describe('jsonDepth', () => {
  it.each<[JsonValue, number]>([
    [1, 0],
    [[], 1],
    [{}, 1],
    [[[1]], 2],
    [{ a: { b: [] } }, 3],
  ])('%j is %d deep', (value, depth) => expect(jsonDepth(value)).toBe(depth));

  it('survives any depth', () => {
    let deep: JsonValue = null;
    for (let level = 0; level < 100_000; level += 1) deep = [deep];
    expect(jsonDepth(deep)).toBe(100_000);
  });
});

describe('canonical JSON', () => {
  it('is the same for every key order and parses back to the value', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalJson(shuffled(value))).toBe(canonicalJson(value));
        expect(jsonEqual(JSON.parse(canonicalJson(value)) as JsonValue, value)).toBe(true);
      }),
    );
  });

  it('sorts keys by UTF-16 code units and serialises as RFC 8785 says', () => {
    const value: JsonObject = {
      numbers: [333333333.3333333, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: '\u20ac$\u000f\u000aA\'\u0042\u0022\u005c\\"/',
      literals: [null, true, false],
    };
    expect(canonicalJson(value)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
    const keys = { '\ufb33': 1, '\ud83d\ude00': 2, '\u20ac': 3, '\r': 4, '1': 5 };
    expect(canonicalJson(keys)).toBe('{"\\r":4,"1":5,"\u20ac":3,"\ud83d\ude00":2,"\ufb33":1}');
  });

  it('refuses what JSON cannot hold', () => {
    expect(() => canonicalJson(Number.NaN)).toThrow(RangeError);
    expect(() => canonicalJson([Number.POSITIVE_INFINITY])).toThrow(RangeError);
  });
});

describe('seal', () => {
  // The text itself: a digest without collisions.
  const digest = (text: string) => text;
  const call = { tool: 'ping', schemaDigest: 'x', arguments: { a: 1 } };

  it('changes with tool, schema and arguments, and with nothing else', () => {
    const sealed = sealDigest(digest, call);
    expect(sealDigest(digest, { ...call, arguments: shuffled(call.arguments) })).toBe(sealed);
    for (const other of [{ tool: 'pong' }, { schemaDigest: 'y' }, { arguments: { a: 2 } }]) {
      expect(sealDigest(digest, { ...call, ...other })).not.toBe(sealed);
    }
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(digestOf(digest, a) === digestOf(digest, b)).toBe(jsonEqual(a, b));
      }),
    );
  });
});
