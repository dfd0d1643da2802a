import { AppError } from '@codedock/domain';
import fc from 'fast-check';
import { readJson } from './json-body.js';

const bytes = (text: string) => new TextEncoder().encode(text);

function fault(body: Uint8Array): AppError {
  try {
    readJson(body);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('the body was accepted');
}

describe('readJson', () => {
  it('gives back any JSON value', () => {
    const keys = fc.string().filter((key) => key !== '__proto__' && key !== 'constructor' && !key.includes('\0'));
    const values = fc
      .jsonValue({ noUnicodeString: false, maxDepth: 5 })
      .filter((value) => !/\\u0000|"(__proto__|constructor)":/.test(JSON.stringify(value)));
    fc.assert(
      fc.property(fc.dictionary(keys, values, { noNullPrototype: true }), (value) => {
        expect(readJson(bytes(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it.each([
    ['text that is no JSON', bytes('{"a":'), undefined],
    ['a byte order mark', bytes('\ufeff{}'), undefined],
    ['bytes that are no UTF-8', Uint8Array.of(0x22, 0xff, 0x22), undefined],
  ])('refuses %s as malformed', (_, body) => {
    expect(fault(body)).toMatchObject({ code: 'malformed_json', status: 400 });
  });

  it.each([
    ['NUL in a string', '{"a":["b","\\u0000"]}', '/a/1'],
    ['an unpaired surrogate', '{"a":{"b":"\\ud800"}}', '/a/b'],
    ['NUL in a key', '{"a":{"\\u0000":1}}', '/a'],
    ['__proto__', '{"metadata":{"__proto__":{"admin":true}}}', '/metadata/__proto__'],
    ['__proto__ by escape', '{"\\u005f_proto__":1}', '/__proto__'],
    ['constructor', '{"constructor":{"prototype":{"admin":true}}}', '/constructor'],
    ['a number beyond a double', '{"a":1e400}', '/a'],
    ['65 levels', `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, '/a'.repeat(64)],
    ['a key that needs escaping', '{"a/b~c":"\\udfff"}', '/a~1b~0c'],
  ])('refuses %s, naming the path', (_, text, path) => {
    expect(fault(bytes(text))).toMatchObject({ code: 'invalid_request', status: 422, errors: [{ path }] });
  });

  it('accepts 64 levels', () => {
    expect(readJson(bytes(`${'['.repeat(64)}${']'.repeat(64)}`))).toBeDefined();
  });

  it('refuses a million levels and too many values without exhausting anything', () => {
    expect(fault(bytes('['.repeat(500_000) + ']'.repeat(500_000)))).toMatchObject({ status: 422 });
    expect(fault(bytes(`[${'1,'.repeat(200_000)}1]`))).toMatchObject({ status: 422 });
  });

  it('leaves the prototype of everything alone', () => {
    fault(bytes('{"__proto__":{"polluted":1}}'));
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it('reads nothing as nothing', () => {
    expect(readJson(bytes(''))).toBeUndefined();
  });
});
