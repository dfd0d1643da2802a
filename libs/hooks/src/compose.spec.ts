import type { JsonValue } from '@codedock/domain';
import fc from 'fast-check';
import { compose } from './compose.js';
import type { GateEvent, GateHook, GateName, ToolCallDecision } from './gates.js';
import { GATE_NAMES, policyOf } from './policy.js';
import { testCall } from './testing/gate-call.js';
import { THREADINGS } from './threading.js';

const message = (id: string, text: string) =>
  ({
    id,
    sessionId: 's',
    role: 'assistant',
    content: { text },
    eventSeq: 0,
    createdAt: '2024-01-01T00:00:00Z',
  }) as const;

const toolEvent = (args: JsonValue): GateEvent<'beforeToolCall'> => ({
  call: { id: 'c', name: 'ping', arguments: args },
  tool: { requiresApproval: false, effect: 'pure' },
});

const run = async <G extends GateName>(gate: G, hooks: (GateHook<G> | undefined)[], event: GateEvent<G>) => {
  const { call, records } = testCall();
  return { decision: await compose(gate, ...hooks)?.(event, call), records };
};

describe('compose', () => {
  it('gives undefined for nothing, and the hook itself for one hook', () => {
    const hook: GateHook<'beforeInput'> = () => ({ kind: 'continue' });
    expect(compose('beforeInput')).toBeUndefined();
    expect(compose('beforeInput', undefined, undefined)).toBeUndefined();
    expect(compose('beforeInput', undefined, hook)).toBe(hook);
  });

  it('asks in argument order and shows each hook what the former changed', async () => {
    const seen: string[] = [];
    const append =
      (text: string): GateHook<'beforeInput'> =>
      ({ content }) => {
        seen.push(content);
        return { kind: 'transform', content: content + text };
      };
    const { decision } = await run('beforeInput', [append('b'), undefined, append('c')], { content: 'a' });
    expect(seen).toEqual(['a', 'ab']);
    expect(decision).toEqual({ kind: 'transform', content: 'abc' });
  });

  it('tells no change when the last value equals the first by JSON value', async () => {
    const { decision } = await run(
      'beforeToolCall',
      [() => ({ kind: 'proceed', arguments: { b: 1, a: 2 } }), () => ({ kind: 'proceed' })],
      toolEvent({ a: 2, b: 1 }),
    );
    expect(decision).toEqual({ kind: 'proceed' });
  });

  const enders: { gate: GateName; event: unknown; changing: unknown; ender: unknown }[] = [
    {
      gate: 'beforeInput',
      event: { content: 'a' },
      changing: { kind: 'transform', content: 'b' },
      ender: { kind: 'handled' },
    },
    {
      gate: 'beforeInput',
      event: { content: 'a' },
      changing: { kind: 'transform', content: 'b' },
      ender: { kind: 'block', reason: 'no' },
    },
    {
      gate: 'beforeRunStart',
      event: { systemPrompt: '', hidden: [] },
      changing: { kind: 'continue', systemPrompt: 'x' },
      ender: { kind: 'block', reason: 'no' },
    },
    { gate: 'onLoop', event: {}, changing: { kind: 'continue' }, ender: { kind: 'stop', reason: 'enough' } },
    {
      gate: 'transformContext',
      event: { systemPrompt: '', messages: [] },
      changing: { kind: 'reply', systemPrompt: 'x' },
      ender: { kind: 'stop', reason: 'enough' },
    },
    {
      gate: 'transformContext',
      event: { systemPrompt: '', messages: [] },
      changing: { kind: 'reply', systemPrompt: 'x' },
      ender: { kind: 'could_not_ask', code: 'gate_timeout', reason: 'late' },
    },
    ...[
      { kind: 'block', reason: 'no' },
      { kind: 'skip', result: 1 },
      { kind: 'abort', reason: 'no' },
      { kind: 'could_not_ask', code: 'gate_unavailable', reason: 'gone' },
    ].map((ender) => ({
      gate: 'beforeToolCall' as const,
      event: toolEvent({}),
      changing: { kind: 'ask', reasons: [{ by: 'x', reason: 'y' }], arguments: { changed: true } },
      ender,
    })),
  ];
  it.each(enders)(
    'ends the chain of $gate at $ender.kind and drops the changes',
    async ({ gate, event, changing, ender }) => {
      const later = jest.fn();
      const hooks = [() => changing, () => ender, later] as unknown as GateHook<GateName>[];
      const { decision } = await run(gate, hooks, event as GateEvent<GateName>);
      expect(decision).toEqual(ender);
      expect(later).not.toHaveBeenCalled();
    },
  );

  it('keeps an ask, its reasons and its arguments while later hooks are still asked', async () => {
    const seen: JsonValue[] = [];
    const { decision } = await run(
      'beforeToolCall',
      [
        () => ({ kind: 'ask', reasons: [{ by: 'a', reason: '1' }], arguments: { n: 1 } }),
        ({ call }) => {
          seen.push(call.arguments);
          return { kind: 'proceed', arguments: { n: 2 } };
        },
        () => ({ kind: 'ask', reasons: [{ by: 'c', reason: '2' }] }),
      ],
      toolEvent({}),
    );
    expect(seen).toEqual([{ n: 1 }]);
    expect(decision).toEqual({
      kind: 'ask',
      arguments: { n: 2 },
      reasons: [
        { by: 'a', reason: '1' },
        { by: 'c', reason: '2' },
      ],
    });
  });

  it('lays request headers over and tells only the changed ones', async () => {
    const { decision } = await run(
      'beforeProviderRequest',
      [
        () => ({ kind: 'reply', headers: { 'X-A': '2' } }),
        ({ headers }) => ({ kind: 'reply', body: headers['x-a'] ?? '' }),
      ],
      { headers: { 'x-a': '1', 'x-b': '1' }, body: '{}' },
    );
    expect(decision).toEqual({ kind: 'reply', headers: { 'x-a': '2' }, body: '2' });
  });

  it('replaces result fields by present nulls and keeps absent ones', async () => {
    const { decision } = await run(
      'afterToolCall',
      [() => ({ kind: 'reply', error: null }), () => ({ kind: 'reply', output: null })],
      { call: toolEvent({}).call, result: { success: false, output: 'x', error: 'bad' }, n: 1 },
    );
    expect(decision).toEqual({ kind: 'reply', output: null, error: null });
  });

  it('keeps what an earlier hook took out of a result when a later one breaks, and records that', async () => {
    const { decision, records } = await run(
      'afterToolCall',
      [
        () => ({ kind: 'reply', output: '[redacted]' }),
        () => {
          throw new Error('boom');
        },
      ],
      { call: toolEvent({}).call, result: { success: true, output: 'secret' }, n: 1 },
    );
    expect(decision).toEqual({ kind: 'reply', output: '[redacted]' });
    expect(records).toMatchObject([{ gate: 'afterToolCall', outcome: 'error' }]);
  });

  it('keeps the revised reply when a later hook stops after the model call', async () => {
    const { decision } = await run(
      'afterModelCall',
      [() => ({ kind: 'continue', message: message('m', 'clean') }), () => ({ kind: 'stop', reason: 'enough' })],
      { message: message('m', 'raw'), usage: { inputTokens: 0, outputTokens: 0 }, finishReason: 'stop' },
    );
    expect(decision).toEqual({ kind: 'stop', reason: 'enough', message: message('m', 'clean') });
  });

  it('lets a throw through at a veto gate and refuses an answer that is no decision', async () => {
    const proceed: GateHook<'beforeToolCall'> = () => ({ kind: 'proceed' });
    const broken = (() => ({ kind: 'continue' })) as unknown as GateHook<'beforeToolCall'>;
    await expect(run('beforeToolCall', [broken, proceed], toolEvent({}))).rejects.toThrow('no decision');
    const throwing = () => Promise.reject(new Error('boom'));
    await expect(run('beforeToolCall', [throwing, proceed], toolEvent({}))).rejects.toThrow('boom');
  });

  it('asks every observer in order and fails with the first that throws', async () => {
    const seen: number[] = [];
    const hooks: GateHook<'afterProviderResponse'>[] = [
      () => void seen.push(1),
      () => {
        throw new Error('boom');
      },
      () => void seen.push(3),
    ];
    await expect(run('afterProviderResponse', hooks, { status: 200, headers: {} })).rejects.toThrow('boom');
    expect(seen).toEqual([1]);
  });

  describe('laws', () => {
    const args = fc.oneof(fc.integer(), fc.string()).map((value): JsonValue => ({ value }));
    const by = fc.constantFrom('a', 'b', 'c');
    const decisions: fc.Arbitrary<ToolCallDecision> = fc.oneof(
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('proceed' as const) }) },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('proceed' as const), arguments: args }) },
      {
        weight: 4,
        arbitrary: fc.record({
          kind: fc.constant('ask' as const),
          reasons: fc.array(fc.record({ by, reason: fc.string() }), { minLength: 1, maxLength: 2 }),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          kind: fc.constant('ask' as const),
          reasons: fc.array(fc.record({ by, reason: fc.string() }), { minLength: 1, maxLength: 2 }),
          arguments: args,
        }),
      },
      fc.record({ kind: fc.constant('block' as const), reason: fc.string() }),
      fc.record({ kind: fc.constant('skip' as const), result: args }),
      fc.record({ kind: fc.constant('abort' as const), reason: fc.string() }),
    );

    it('beforeToolCall does what the contract says, hook by hook', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(decisions, { minLength: 2, maxLength: 6 }), args, async (answers, first) => {
          const asked: { index: number; arguments: JsonValue }[] = [];
          const hooks = answers.map(
            (answer, index): GateHook<'beforeToolCall'> =>
              (event) => {
                asked.push({ index, arguments: event.call.arguments });
                return answer;
              },
          );
          const { decision } = await run('beforeToolCall', hooks, toolEvent(first));

          // The contract, said once more without the composer.
          const end = answers.findIndex(({ kind }) => kind === 'block' || kind === 'skip' || kind === 'abort');
          const passed = end < 0 ? answers : answers.slice(0, end);
          let value = first;
          const values = passed.map((answer) => {
            const before = value;
            if ('arguments' in answer && answer.arguments !== undefined) value = answer.arguments;
            return before;
          });
          expect(asked).toEqual(
            [...values, ...(end < 0 ? [] : [value])].map((given, index) => ({ index, arguments: given })),
          );
          if (end >= 0) return expect(decision).toEqual(answers[end]);
          const reasons = passed.flatMap((answer) => (answer.kind === 'ask' ? answer.reasons : []));
          const changed = JSON.stringify(value) === JSON.stringify(first) ? {} : { arguments: value };
          return expect(decision).toEqual(
            reasons.length > 0 ? { kind: 'ask', reasons, ...changed } : { kind: 'proceed', ...changed },
          );
        }),
      );
    });

    it('is associative', async () => {
      const hookOf =
        (answer: ToolCallDecision): GateHook<'beforeToolCall'> =>
        () =>
          answer;
      await fc.assert(
        fc.asyncProperty(decisions, decisions, decisions, args, async (a, b, c, first) => {
          const [x, y, z] = [hookOf(a), hookOf(b), hookOf(c)];
          const left = await run('beforeToolCall', [compose('beforeToolCall', x, y), z], toolEvent(first));
          const right = await run('beforeToolCall', [x, compose('beforeToolCall', y, z)], toolEvent(first));
          expect(left.decision).toEqual(right.decision);
        }),
      );
    });

    it('a chain of hooks without an opinion changes nothing at any gate', async () => {
      const quiet: Partial<Record<GateName, string>> = { beforeInput: 'continue', beforeToolCall: 'proceed' };
      for (const gate of GATE_NAMES.filter((name) => policyOf(name).class !== 'observe')) {
        const kind = quiet[gate] ?? policyOf(gate).decisions[0];
        const hook = (() => ({ kind })) as unknown as GateHook<GateName>;
        const event = {
          content: 'a',
          systemPrompt: 's',
          hidden: [],
          messages: [],
          headers: {},
          body: '{}',
          message: message('m', 'x'),
          ...toolEvent({}),
          result: { success: true, output: 1 },
          n: 1,
        } as unknown as GateEvent<GateName>;
        const { decision } = await run(gate, [hook, hook], event);
        expect(decision).toEqual({ kind });
        expect(THREADINGS[gate].apply(event as never, decision as never)).toEqual(
          THREADINGS[gate].apply(event as never, { kind } as never),
        );
      }
    });
  });
});
