import { type GateCall, type HookRecord, isConnectionHeader, isCredentialHeader } from '@codedock/domain';
import fc from 'fast-check';
import { guardedHeaders } from './guarded-headers.js';
import { judgeHeaders } from './header-policy.js';

const safeName = fc
  .stringMatching(/^[a-z][a-z0-9-]{0,12}$/)
  .filter((name) => !isConnectionHeader(name) && !isCredentialHeader(name));
const safeValue = fc.stringMatching(/^[\x20-\x7e]{0,20}$/);
const anyName = fc.oneof(
  safeName,
  fc.constantFrom(
    'Content-Length',
    'HOST',
    'transfer-encoding',
    'Connection',
    'authorization',
    'X-Api-Key',
    'cookie',
    '__proto__',
  ),
  fc.string(),
);
const anyValue = fc.oneof(safeValue, fc.string({ unit: 'binary' }), fc.constantFrom('a\r\nb: c', 'nul\0', '\ud800'));
const record = (name: fc.Arbitrary<string>, value: fc.Arbitrary<string>) =>
  fc.array(fc.tuple(name, value), { maxLength: 8 }).map((pairs) => Object.fromEntries(pairs));
const carried = record(fc.oneof(safeName, fc.constantFrom('authorization', 'host', 'content-length')), safeValue);

describe('judgeHeaders', () => {
  it('gives only headers that HTTP can carry, whatever a hook asks for', () => {
    fc.assert(
      fc.property(carried, record(anyName, anyValue), (before, asked) => {
        const { headers } = judgeHeaders(before, asked);
        expect(() => new Headers(headers)).not.toThrow();
      }),
    );
  });

  it('never lets a hook set, change or remove framing and credentials', () => {
    fc.assert(
      fc.property(carried, record(anyName, anyValue), (before, asked) => {
        const { headers } = judgeHeaders(before, asked);
        const guarded = (all: Record<string, string>) =>
          Object.fromEntries(
            Object.entries(all).filter(([name]) => isConnectionHeader(name) || isCredentialHeader(name)),
          );
        expect(guarded(headers)).toEqual(guarded(before));
      }),
    );
  });

  it('makes and records every allowed change, and is idempotent', () => {
    fc.assert(
      fc.property(record(safeName, safeValue), record(safeName, safeValue), (before, asked) => {
        const judged = judgeHeaders(before, asked);
        expect(judged).toEqual({ headers: asked, refused: [] });
        expect(judgeHeaders(before, judged.headers)).toEqual(judged);
      }),
    );
  });

  it('names each refusal', () => {
    const { headers, refused } = judgeHeaders(
      { 'x-a': '1' },
      { 'X-A': 'a\r\nb', Host: 'evil', 'bad name': 'x', 'x-ok': 'yes' },
    );
    expect(headers).toEqual({ 'x-a': '1', 'x-ok': 'yes' });
    expect(refused.map(({ name }) => name)).toEqual(['x-a', 'host', 'bad name']);
  });
});

describe('guardedHeaders', () => {
  const audited = () => {
    const records: HookRecord[] = [];
    return { records, call: { record: (line: HookRecord) => records.push(line) } as unknown as GateCall };
  };

  it('keeps absent hooks absent', () => {
    expect(guardedHeaders({})).toEqual({});
  });

  it('takes refused headers out of both gates and records them', async () => {
    const reply = { kind: 'reply', headers: { 'content-length': '1', 'x-b': '2' } } as const;
    const hooks = guardedHeaders({
      beforeProviderHeaders: () => reply,
      beforeProviderRequest: () => ({ ...reply, body: '{}' }),
    });
    const { records, call } = audited();
    expect(await hooks.beforeProviderHeaders?.({ headers: {} }, call)).toEqual({
      kind: 'reply',
      headers: { 'x-b': '2' },
    });
    expect(await hooks.beforeProviderRequest?.({ headers: {}, body: '' }, call)).toEqual({
      kind: 'reply',
      headers: { 'x-b': '2' },
      body: '{}',
    });
    expect(records).toMatchObject([
      { gate: 'beforeProviderHeaders', outcome: 'invalid', reason: expect.stringContaining('content-length') },
      { gate: 'beforeProviderRequest', outcome: 'invalid', reason: expect.stringContaining('content-length') },
    ]);
  });
});
