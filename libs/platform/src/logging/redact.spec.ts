import fc from 'fast-check';
import { redactLine, redactText, redactValue } from './redact.js';

test.each([
  ['redis://:pw@host:6379/0', 'redis://:[redacted]@host:6379/0'],
  ['postgres://u:p%40ss@h/db and more', 'postgres://u:[redacted]@h/db and more'],
  ['Authorization: Bearer abcdefgh1234', 'Authorization: Bearer [redacted]'],
  ['sk-proj-abcdefghijklmnop123', '[redacted]'],
  ['AKIAIOSFODNN7EXAMPLE', '[redacted]'],
  ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.sig_sig-sig', '[redacted]'],
  ['-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----', '[redacted]'],
  ['http://127.0.0.1:8080/v1/runs', 'http://127.0.0.1:8080/v1/runs'],
  ['the task-force asked about a basic skill', 'the task-force asked about a basic skill'],
])('text %j', (text, expected) => {
  expect(redactText(text)).toBe(expected);
});

test('members with a secret name are replaced, similar names are not', () => {
  expect(
    redactValue({
      password: 'x',
      apiKey: 'x',
      API_KEY: 'x',
      dbPassword: 'x',
      OPENAI_API_KEY: 'x',
      'set-cookie': ['x'],
      tokens: 5,
      maxTokens: 5,
      secretary: 'Ann',
      hasPassword: true,
      password_set: null,
      toolKey: 'k',
    }),
  ).toEqual({
    password: '[redacted]',
    apiKey: '[redacted]',
    API_KEY: '[redacted]',
    dbPassword: '[redacted]',
    OPENAI_API_KEY: '[redacted]',
    'set-cookie': '[redacted]',
    tokens: 5,
    maxTokens: 5,
    secretary: 'Ann',
    hasPassword: true,
    password_set: null,
    toolKey: 'k',
  });
});

test('cycles, depth, bytes, big integers and failing toJSON do not break a line', () => {
  const cycle: Record<string, unknown> = { bytes: Buffer.from('abc'), big: 1n, at: new Date(0) };
  cycle['self'] = cycle;
  cycle['bad'] = {
    toJSON() {
      throw new Error('no');
    },
  };
  expect(redactValue(cycle)).toEqual({
    bytes: '[3 bytes]',
    big: '1',
    at: '1970-01-01T00:00:00.000Z',
    self: '[cycle]',
    bad: '[unprintable]',
  });
  let deep: unknown = 'end';
  for (let level = 0; level < 50; level += 1) {
    deep = { deep };
  }
  expect(JSON.stringify(redactValue(deep))).toContain('[deep]');
});

test('any JSON value stays printable, and is not changed itself', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const before = JSON.stringify(value);
      expect(() => JSON.stringify(redactValue(value))).not.toThrow();
      expect(JSON.stringify(value)).toBe(before);
    }),
  );
});

test('a redacted JSON line is still JSON, whatever it contains', () => {
  const piece = fc.constantFrom(
    '"',
    '\\',
    ' ',
    'Bearer abcdefghij',
    'x://u:p@h',
    'sk-abcdefghijklmnopqrst',
    '\n',
    '-----BEGIN PRIVATE KEY-----',
    '-----END PRIVATE KEY-----',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const line = JSON.stringify({ msg: pieces.join('') });
      expect(() => JSON.parse(redactLine(line)) as unknown).not.toThrow();
    }),
  );
});

test('a line of any JSON object stays the same object but for its secrets', () => {
  const members = fc.dictionary(
    fc.constantFrom('a', ':', ',', 'b"', '{'),
    fc.array(fc.constantFrom(':', '"', ',', 'x')),
  );
  fc.assert(
    fc.property(members, (value) => {
      expect(JSON.parse(redactLine(JSON.stringify({ ...value, token: 'a"b', last: 1 })))).toEqual({
        ...value,
        token: '[redacted]',
        last: 1,
      });
    }),
  );
});
