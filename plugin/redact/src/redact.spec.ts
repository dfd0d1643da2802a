import type { JsonValue } from '@codedock/plugin-sdk';
import { testPlugin } from '@codedock/plugin-sdk/testing';
import fc from 'fast-check';
import { plugin } from './plugin.js';
import { redactJson } from './redact-json.js';
import { redactText } from './redact-text.js';

const upperAlnum = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
const alnum = `${upperAlnum}abcdefghijklmnopqrstuvwxyz`;

const charsOf = (alphabet: string, length: number, most = length) =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength: length, maxLength: most });

/** Any casing of a word. */
const casings = (word: string) =>
  fc
    .array(fc.boolean(), { minLength: word.length, maxLength: word.length })
    .map((upper) =>
      [...word].map((letter, index) => (upper[index] ? letter.toUpperCase() : letter.toLowerCase())).join(''),
    );

/** A text with a secret in it, and the part that must not survive. */
interface Planted {
  readonly text: string;
  readonly canary: string;
}

const awsKey: fc.Arbitrary<Planted> = fc
  .tuple(fc.constantFrom('akia', 'asia').chain(casings), charsOf(alnum, 16))
  .map(([prefix, rest]) => ({ text: prefix + rest, canary: prefix + rest }));

const secretValue = charsOf(`${alnum}_+/=~.!-`, 7, 40).map((value) => `${value}9x`);
const secretName = fc
  .constantFrom(
    'api_key',
    'apikey',
    'api-key',
    'secret',
    'db_password',
    'github_token',
    'aws_secret_access_key',
    'client_secret',
    'token_v2',
  )
  .chain(casings);

const assignment: fc.Arbitrary<Planted> = fc
  .tuple(secretName, fc.constantFrom('=', ' = ', ': ', ':', ' := ', ' => '), fc.constantFrom('', '"', "'"), secretValue)
  .map(([name, separator, quote, value]) => ({ text: name + separator + quote + value + quote, canary: value }));

const jsonText: fc.Arbitrary<Planted> = fc
  .tuple(
    secretName,
    fc.oneof(
      secretValue,
      charsOf(`${alnum} "\\,;&`, 1, 20).map((value) => `${value}canary7`),
    ),
    fc.integer({ min: 0, max: 1 }),
  )
  .map(([name, value, indent]) => ({
    text: JSON.stringify({ a: 1, [name]: value, b: 'x' }, null, indent),
    canary: value.slice(-7),
  }));

const bearer: fc.Arbitrary<Planted> = fc
  .tuple(
    casings('bearer'),
    fc.constantFrom(' ', '  ', '\t'),
    secretValue.filter((value) => /^[A-Za-z0-9._~+/-]+$/.test(value)),
  )
  .map(([scheme, space, value]) => ({ text: scheme + space + value, canary: value }));

const header: fc.Arbitrary<Planted> = fc
  .tuple(casings('authorization'), fc.constantFrom('bearer', 'basic').chain(casings), charsOf(`${alnum}+/=`, 3, 40))
  .map(([name, scheme, value]) => ({ text: `${name}: ${scheme} ${value}`, canary: `${scheme} ${value}` }));

const privateKey: fc.Arbitrary<Planted> = fc
  .tuple(
    fc.constantFrom('', 'RSA ', 'EC ', 'OPENSSH ', 'ENCRYPTED '),
    charsOf(`${alnum}+/=\n`, 20, 200),
    fc.boolean(),
    fc.constantFrom('\n', '\\n', '\r\n'),
  )
  .map(([kind, body, ended, newline]) => ({
    text: `-----BEGIN ${kind}PRIVATE KEY-----${newline}${body}${newline}${ended ? `-----END ${kind}PRIVATE KEY-----` : ''}`,
    canary: body,
  }));

const planted = fc.oneof(awsKey, assignment, jsonText, bearer, header, privateKey);

/** Text around a secret that does not run into it. */
const around = fc.oneof(
  fc.constant(''),
  fc.string().map((text) => `${text} `),
  fc.string().map((text) => `${text}\n`),
);

/** Words no rule is about. */
const harmless = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        'the',
        'key',
        'Bearer authentication',
        'total_tokens: 12345',
        'nextPageToken=abc123',
        '"max_tokens": 4096',
        'token: string',
        'AKIA',
        'const x = 1;',
        '{"a":[1,2]}',
        '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
        'passwort',
        '密钥',
        '👍',
        '\\',
        '"',
      ),
      charsOf('abcdefghijklmnop \n', 0, 12),
    ),
  )
  .map((words) => words.join(' '));

describe('text', () => {
  it('no secret survives, wherever it stands and however it is cased', () => {
    fc.assert(
      fc.property(around, planted, fc.string(), (before, { text, canary }, after) => {
        expect(redactText(`${before}${text}\n${after}`)).not.toContain(canary);
      }),
      { numRuns: 2_000 },
    );
  });

  it('redacting twice is redacting once', () => {
    fc.assert(
      fc.property(planted, ({ text }) => expect(redactText(redactText(text))).toBe(redactText(text))),
      { numRuns: 1_000 },
    );
  });

  it('text without secrets stays as it is, to the byte', () => {
    fc.assert(
      fc.property(harmless, (text) => expect(redactText(text)).toBe(text)),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['AKIAIOSFODNN7EXAMPLE', '[redacted:aws-key]'],
    ['export API_KEY=abc', 'export API_KEY=[redacted:secret]'],
    ['https://x.example/?api_key=abc&page=2', 'https://x.example/?api_key=[redacted:secret]&page=2'],
    ['{"password": "a \\"b\\" c", "user": "u"}', '{"password": "[redacted:secret]", "user": "u"}'],
    ['{\\"token\\":\\"abc\\",\\"x\\":1}', '{\\"token\\":\\"[redacted:secret]\\",\\"x\\":1}'],
    ['Authorization: Bearer abc', 'Authorization: Bearer [redacted:token]'],
    ['curl -H "authorization: basic dXNlcg==" x', 'curl -H "authorization: basic [redacted:token]" x'],
    ['a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b', 'a [redacted:private-key] b'],
  ])('%s', (text, redacted) => expect(redactText(text)).toBe(redacted));

  it.each([
    ['key names', 'api_key'.repeat(40_000)],
    ['unfinished assignments', 'token="'.repeat(40_000)],
    ['escaped quotes', 'secret\\"'.repeat(40_000)],
    ['token starts', 'eyJ'.repeat(100_000)],
    ['issued tokens', 'sk-'.repeat(100_000)],
    ['bearer', `${'bearer '.repeat(40_000)}${' '.repeat(40_000)}`],
    ['block starts', '-----BEGIN A B C PRIVATE KEY----'.repeat(10_000)],
    ['dashes', '-'.repeat(300_000)],
    ['AWS prefixes', 'AKIA '.repeat(60_000)],
    ['one long word', 'a'.repeat(300_000)],
    ['spaces', `password${' '.repeat(300_000)}=`],
  ])('takes time linear in the text: %s', (_, text) => {
    const begun = performance.now();
    redactText(text);
    expect(performance.now() - begun).toBeLessThan(1_500);
  });
});

describe('JSON', () => {
  /** A JSON value with the secret somewhere inside, as a text or as the name of a member. */
  const nested = (secret: string): fc.Arbitrary<JsonValue> =>
    fc.array(fc.constantFrom('array', 'value', 'name', 'beside'), { maxLength: 6 }).map((path) =>
      path.reduce<JsonValue>((inner, step) => {
        if (step === 'array') return [1, inner, null];
        if (step === 'value') return { a: true, b: inner };
        if (step === 'name') return typeof inner === 'string' ? { [inner]: 1 } : { c: inner };
        return { d: 'text', e: [inner, { f: inner }] };
      }, secret),
    );

  it('no secret survives at any depth', () => {
    fc.assert(
      fc.property(
        planted.chain((secret) => nested(secret.text).map((value) => ({ value, canary: secret.canary }))),
        ({ value, canary }) => {
          expect(JSON.stringify(redactJson(value))).not.toContain(JSON.stringify(canary).slice(1, -1));
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('the text under the name of a secret goes as a whole', () => {
    expect(redactJson({ apiKey: 'two words', nextPageToken: 'p1', token: '', max_tokens: 5 })).toEqual({
      apiKey: '[redacted:secret]',
      nextPageToken: 'p1',
      token: '',
      max_tokens: 5,
    });
  });

  it('members whose names differ only in their secrets both stay', () => {
    const redacted = redactJson({ AKIAIOSFODNN7EXAMPLE: 1, AKIAIOSFODNN7EXAMPLF: 2 });
    expect(redacted).toEqual({ '[redacted:aws-key]': 1, '[redacted:aws-key]#2': 2 });
  });

  it('a value without secrets is the very same value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ depthSize: 'medium' }), (value) => {
        fc.pre(redactText(JSON.stringify(value)) === JSON.stringify(value));
        expect(redactJson(value as JsonValue)).toBe(value);
      }),
    );
  });

  it('refuses what is nested too deeply', () => {
    const deep = JSON.parse('['.repeat(600) + ']'.repeat(600)) as JsonValue;
    expect(() => redactJson(deep)).toThrow('nested deeper than 500');
  });
});

describe('the plugin', () => {
  const tested = testPlugin(plugin);
  const key = 'AKIAIOSFODNN7EXAMPLE';
  const message = (content: { text: string } | { call_id: string; output: JsonValue }) =>
    ({ id: 'm', session_id: 's', role: 'user', content, event_seq: 1, created_at: '2026-01-01T00:00:00Z' }) as const;

  it('subscribes to the three ports, closed where a failure would let text out', () => {
    expect([...tested.manifest.subscriptions].sort()).toEqual(['agent/input', 'agent/request', 'tools/post-execute']);
    expect(tested.manifest.portFailurePolicy).toEqual({ 'agent/request': 'closed', 'tools/post-execute': 'closed' });
  });

  it('redacts at every port', async () => {
    const input = await tested.agentInput({ content: `my key is ${key}` });
    const request = await tested.agentRequest({
      systemPrompt: `API_KEY=${key}`,
      messages: [message({ text: key }), message({ call_id: 'c', output: { deep: [key] } })],
    });
    const result = await tested.toolPostExecute({
      call: { name: 'x' },
      output: { log: [key] },
      success: false,
      error: `token=${key}`,
    });
    for (const { decision, payload } of [input, request, result]) {
      expect(decision).toBe('changed');
      expect(JSON.stringify(payload)).not.toContain(key);
    }
  });

  it('redacts what calls were made with and what is attached, and keeps the ids', async () => {
    const { payload } = await tested.agentRequest({
      messages: [
        message({ text: 'untouched' }),
        {
          ...message({ text: 'x' }),
          attachments: [{ note: key }],
          tool_calls: [{ id: 'c1', name: 'shell', arguments: { command: `export TOKEN=${key}` } }],
        },
      ],
    });
    expect(payload['messages']).toMatchObject([
      { content: { text: 'untouched' } },
      {
        id: 'm',
        attachments: [{ note: '[redacted:aws-key]' }],
        tool_calls: [{ id: 'c1', name: 'shell', arguments: { command: 'export TOKEN=[redacted:secret]' } }],
      },
    ]);
  });

  it('reports texts without secrets as unchanged', async () => {
    const decisions = [
      await tested.agentInput({ content: 'hello' }),
      await tested.agentRequest({ systemPrompt: 'Be nice.', messages: [message({ text: 'hello' })] }),
      await tested.toolPostExecute({ call: { name: 'x' } }),
      await tested.toolPostExecute({
        call: { name: 'x' },
        output: { a: [1, 'b'] },
        success: false,
        error: 'not found',
      }),
    ];
    expect(decisions.map(({ decision }) => decision)).toEqual(Array(4).fill('continued'));
  });
});
