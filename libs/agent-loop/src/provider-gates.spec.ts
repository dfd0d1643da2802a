import { AppError, type ModelChunk, type ModelGates } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { loopFixture } from './testing/loop-fixture.js';
import { say } from './testing/scripted-model.js';

/** Runs one model call whose adapter does this with the gates. */
async function withGates(hooks: Hooks, adapter: (gates: ModelGates) => Promise<unknown>) {
  const seen: { answer?: unknown; thrown?: unknown; gates?: ModelGates } = {};
  const f = loopFixture({
    hooks,
    script: [
      (_, gates) =>
        (async function* (): AsyncIterable<ModelChunk> {
          seen.gates = gates;
          try {
            seen.answer = await adapter(gates);
          } catch (error) {
            seen.thrown = error;
            // As a client library does: the cause is buried in an error of its own.
            throw new AppError('provider_unavailable', 'connection failed', { cause: error });
          }
          yield { kind: 'completed', reply: say('end') };
        })(),
    ],
  });
  const result = await f.run();
  return { ...seen, result };
}

const HEADERS = { accept: 'json', 'x-a': '1' };
const body = '{"a": 1, "b": [1,  2]}';

describe('the provider gates', () => {
  it('are absent without hooks', async () => {
    const { gates } = await withGates({}, async () => undefined);
    expect(gates).toEqual({});
  });

  it('headers: the answer is all headers, no answer keeps them', async () => {
    const all = { beforeProviderHeaders: () => ({ kind: 'reply', headers: { 'x-b': '2' } }) } satisfies Hooks;
    expect((await withGates(all, async (gates) => gates.headers?.(HEADERS))).answer).toEqual({ 'x-b': '2' });
    const none = { beforeProviderHeaders: () => ({ kind: 'reply' }) } satisfies Hooks;
    expect((await withGates(none, async (gates) => gates.headers?.(HEADERS))).answer).toEqual(HEADERS);
  });

  it.each([
    ['nothing', {}, { headers: HEADERS, body }],
    ['an equal body, encoded otherwise', { body: '{"b":[1,2],"a":1}' }, { headers: HEADERS, body }],
    ['another body, sent as the text it is', { body: '{ "a":  2 }' }, { headers: HEADERS, body: '{ "a":  2 }' }],
    ['a body that is no JSON', { body: 'plain' }, { headers: HEADERS, body: 'plain' }],
    ['headers, laid over by name', { headers: { 'X-A': '2' } }, { headers: { accept: 'json', 'x-a': '2' }, body }],
  ])('request: %s', async (_, changes, expected) => {
    const hooks = { beforeProviderRequest: () => ({ kind: 'reply', ...changes }) } satisfies Hooks;
    const { answer } = await withGates(hooks, async (gates) => gates.request?.({ headers: HEADERS, body }));
    expect(answer).toEqual(expected);
  });

  it('request: closed and not asked ends the run blocked, whatever the adapter makes of it', async () => {
    const hooks: Hooks = {
      beforeProviderRequest: () => ({ kind: 'could_not_ask', code: 'gate_unavailable', reason: 'gone', by: 'redact' }),
    };
    const end = { status: 'blocked', stopReason: 'gate_unavailable', message: 'gone', by: 'redact' };
    const { result, thrown } = await withGates(hooks, async (gates) => gates.request?.({ headers: {}, body }));
    expect(thrown).toMatchObject({ code: 'gate_unavailable' });
    expect(result).toMatchObject({ kind: 'ended', end });
    const swallowed = await withGates(hooks, async (gates) =>
      gates.request?.({ headers: {}, body }).catch(() => 'sent anyway'),
    );
    expect(swallowed.result).toMatchObject({ kind: 'ended', end });
  });

  it.each(['beforeProviderHeaders', 'beforeProviderRequest'] as const)(
    '%s: a throw fails the run with hook_error',
    async (gate) => {
      const hooks = {
        [gate]: () => {
          throw new Error('boom');
        },
      } as Hooks;
      const { result, thrown } = await withGates(hooks, async (gates) => {
        await gates.headers?.(HEADERS);
        return gates.request?.({ headers: HEADERS, body });
      });
      expect(thrown).toMatchObject({ code: 'hook_error' });
      expect(result).toMatchObject({ kind: 'ended', end: { status: 'failed', stopReason: 'hook_error' } });
    },
  );

  it('response: a throw fails the attempt, and a later attempt may succeed', async () => {
    let attempts = 0;
    const hooks: Hooks = {
      afterProviderResponse: ({ status }) => {
        attempts += 1;
        if (status === 500) throw new Error('not this one');
      },
    };
    const { result } = await withGates(hooks, async (gates) => {
      await gates.response?.({ status: 500, headers: {} }).catch(() => undefined);
      await gates.response?.({ status: 200, headers: {} });
    });
    expect(attempts).toBe(2);
    expect(result).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    const failing = await withGates(hooks, async (gates) => gates.response?.({ status: 500, headers: {} }));
    expect(failing.result).toMatchObject({ kind: 'ended', end: { status: 'failed', stopReason: 'model_error' } });
  });
});
