import { AppError, type EffectClass, sealDigest, type ToolCall } from '@codedock/domain';
import type { Hooks, ToolCallDecision } from '@codedock/hooks';
import fc from 'fast-check';
import { loopFixture } from './testing/loop-fixture.js';
import { done, type TestTool } from './testing/memory-tools.js';
import { call, say } from './testing/scripted-model.js';

/** Refuses every fact from the one with that index on, as a lost lease does; facts before it are stored. */
function lossAt(index: number) {
  const loss = { at: index };
  const before = (_name: string, current: number) => {
    if (current >= loss.at) throw new AppError('lease_lost', 'This attempt no longer owns the run.');
  };
  return { loss, before };
}

describe('an open turn', () => {
  it('without a reply: the model is called again, deltas are superseded, only recorded tools are offered', async () => {
    const { loss, before } = lossAt(3);
    const started: unknown[] = [];
    const f = loopFixture({
      before,
      hooks: { onTurnStart: ({ iteration }) => void started.push(iteration) },
      script: [say('one'), say('again', call('late')), say('end')],
      tools: [{ name: 'ping' }],
    });
    expect(await f.run()).toMatchObject({ kind: 'stopped', by: 'lease_lost' });
    expect(f.journal).toEqual(['runStarted', 'turnStarted 1', 'model 1', 'assistantStarted 1']);
    loss.at = Number.POSITIVE_INFINITY;
    f.tools.replace([{ name: 'ping' }, { name: 'late' }]);
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.journal).toContain('turnRestarted 1 attempt');
    expect(f.model.requests[1]?.tools.map(({ name }) => name)).toEqual(['ping']);
    expect(f.told(2)).toEqual(['The tool late was not offered in this turn.']);
    expect(f.ledger.snapshot().turns).toBe(2);
  });

  it('with a reply: the model is not called again and stored gate answers are used', async () => {
    const { loss, before } = lossAt(Number.POSITIVE_INFINITY);
    const gate = jest.fn((): ToolCallDecision => ({ kind: 'proceed', arguments: { b: 2 } }));
    const f = loopFixture({
      before: (name, index) => {
        if (name === 'executionStarted' && loss.at === Number.POSITIVE_INFINITY) loss.at = index;
        before(name, index);
      },
      hooks: { beforeToolCall: gate },
      script: [say('', call('tool', { a: 1 })), say('end')],
      tools: [{ name: 'tool' }],
    });
    expect(await f.run()).toMatchObject({ kind: 'stopped', by: 'lease_lost' });
    expect(f.tools.invocations).toEqual([]);
    loss.at = 1e9;
    await f.run();
    expect(gate).toHaveBeenCalledTimes(1);
    expect(f.model.requests).toHaveLength(2);
    expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual([{ b: 2 }]);
  });

  it('asks the gate again about a proposed call when the policies are others', async () => {
    const { loss, before } = lossAt(Number.POSITIVE_INFINITY);
    const gate = jest.fn((): ToolCallDecision => ({ kind: 'proceed' }));
    const f = loopFixture({
      before: (name, index) => {
        if (name === 'executionStarted' && loss.at === Number.POSITIVE_INFINITY) loss.at = index;
        before(name, index);
      },
      hooks: { beforeToolCall: gate },
      script: [say('', call('tool')), say('end')],
      tools: [{ name: 'tool' }],
    });
    await f.run();
    loss.at = 1e9;
    f.policies.version = 'v2';
    await f.run();
    expect(gate).toHaveBeenCalledTimes(2);
    expect(f.tools.invocations).toHaveLength(1);
  });
});

describe('a call left executing', () => {
  const left = async (effect: EffectClass, hooks: Hooks = {}) => {
    const state = { lost: false, recovered: false };
    const f = loopFixture({
      before: (name) => {
        if (name === 'executionFinished' && !state.recovered) state.lost = true;
        if (state.lost && !state.recovered) throw new AppError('lease_lost', 'lost');
      },
      hooks,
      script: [say('', call('tool')), say('end')],
      tools: [{ name: 'tool', effect }],
    });
    expect(await f.run()).toMatchObject({ kind: 'stopped', by: 'lease_lost' });
    expect(f.ledger.calls.map(({ state: current, executions }) => [current, executions])).toEqual([['executing', 1]]);
    state.recovered = true;
    return f;
  };

  it.each<EffectClass>(['pure', 'idempotent'])(
    '%s: executed again with the next number and the same key',
    async (effect) => {
      const f = await left(effect);
      expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
      expect(f.tools.invocations.map(({ n }) => n)).toEqual([1, 2]);
      expect(new Set(f.tools.invocations.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    },
  );

  it('effectful: unknown, and the model is told', async () => {
    const f = await left('effectful');
    await f.run();
    expect(f.tools.invocations).toHaveLength(1);
    expect(f.journal).toContain('executionUnknown tool 1');
    expect(f.told()).toEqual([expect.stringContaining('unknown')]);
  });

  it.each<[string, ToolCallDecision, number, unknown]>([
    ['proceeds', { kind: 'proceed' }, 2, 'ok'],
    ['blocks', { kind: 'block', reason: 'new rule' }, 1, 'Blocked: new rule'],
    ['skips', { kind: 'skip', result: 'cached' }, 1, 'cached'],
    [
      'asks',
      { kind: 'ask', reasons: [{ by: 'p', reason: 'r' }] },
      1,
      expect.stringContaining('a policy now wants it approved'),
    ],
    [
      'changes the arguments',
      { kind: 'proceed', arguments: { other: 1 } },
      1,
      expect.stringContaining('changed its arguments'),
    ],
  ])('pure, and the new policy %s', async (_, decision, executions, told) => {
    const f = await left('pure');
    f.policies.version = 'v2';
    await f.run(undefined, { beforeToolCall: () => decision });
    expect(f.tools.invocations).toHaveLength(executions);
    expect(f.told()).toEqual([told]);
  });

  it('pure, and the tool is gone: a failed result', async () => {
    const f = await left('pure');
    f.tools.replace([]);
    await f.run();
    expect(f.told()).toEqual([expect.stringContaining('there is no tool tool any more')]);
  });
});

describe('a call of a completed turn that shall be tried again', () => {
  const retried = (more: Partial<ToolCall> = {}, hooks: Hooks = {}, tool: TestTool = { name: 'pay' }) => {
    const base = { sessionId: 'session', runId: 'run', turnId: 't1', eventSeq: 1, createdAt: '' };
    const gated = { digest: sealOf(tool), gateVersion: 'v1', decision: 'proceed', reasons: [] } as const;
    const calls: ToolCall[] = [
      {
        id: 'c1',
        turnId: 't1',
        index: 0,
        name: 'pay',
        arguments: {},
        state: 'approved',
        effect: 'effectful',
        executions: 1,
        gated,
        ...more,
      },
    ];
    return loopFixture({
      hooks,
      tools: [tool],
      script: [say('unused'), say('end')],
      snapshot: {
        attempt: 2,
        start: { systemPrompt: 's', hidden: [] },
        turns: 1,
        retriedTurns: [{ id: 't1', iteration: 1, tools: ['pay'], calls }],
        messages: [
          { ...base, id: 'u', role: 'user', content: { text: 'hello' } },
          {
            ...base,
            id: 'a',
            role: 'assistant',
            content: { text: '' },
            toolCalls: [{ id: 'c1', name: 'pay', arguments: {} }],
          },
        ],
      },
    });
  };
  const sealOf = (tool: TestTool) =>
    sealDigest((text) => text, { tool: tool.name, schemaDigest: `schema of ${tool.name}`, arguments: {} });

  it('is executed first, under its key and the next number, and the model sees the result in its place', async () => {
    const f = retried();
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.tools.invocations.map(({ n, idempotencyKey }) => [n, idempotencyKey])).toEqual([[2, 'c1']]);
    expect(f.journal.indexOf('executionFinished pay 2 succeeded tool')).toBeLessThan(f.journal.indexOf('model 1'));
    expect(f.model.requests[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(f.ledger.snapshot().turns).toBe(2);
  });

  it('passes the policies of now', async () => {
    const f = retried();
    f.policies.version = 'v2';
    await f.run(undefined, { beforeToolCall: () => ({ kind: 'block', reason: 'no more' }) });
    expect(f.tools.invocations).toEqual([]);
    expect(f.told(0)).toEqual(['Blocked: no more']);
  });

  it('waits for a person when a policy changes its arguments', async () => {
    const f = retried();
    f.policies.version = 'v2';
    const result = await f.run(undefined, { beforeToolCall: () => ({ kind: 'proceed', arguments: { b: 1 } }) });
    expect(result).toMatchObject({ kind: 'waiting_approval', turn: { id: 't1' } });
    expect(f.model.requests).toEqual([]);
  });

  it('is not executed a third time when its runner dies in it', async () => {
    const f = retried({ state: 'executing', executions: 2 });
    await f.run();
    expect(f.tools.invocations).toEqual([]);
    expect(f.journal).toContain('executionUnknown pay 2');
  });
});

describe('runners that die at any fact', () => {
  const effects = fc.constantFrom<EffectClass>('pure', 'idempotent', 'effectful');
  const plan = fc.record({
    turns: fc.array(
      fc.array(fc.record({ effect: effects, asks: fc.boolean(), blocked: fc.boolean() }), {
        minLength: 1,
        maxLength: 3,
      }),
      { minLength: 1, maxLength: 3 },
    ),
    losses: fc.array(fc.integer({ min: 0, max: 14 }), { maxLength: 5 }),
  });

  it('execute an effectful call at most once, a blocked one never, and leave every call one result', async () => {
    await fc.assert(
      fc.asyncProperty(plan, async ({ turns, losses }) => {
        const tools = turns.flatMap((calls, turn) =>
          calls.map(
            ({ effect, asks }, index): TestTool => ({
              name: `t${turn}x${index}`,
              effect,
              requiresApproval: asks,
              run: () => done(),
            }),
          ),
        );
        const stepOf = (name: string) => {
          const [turn, index] = name.slice(1).split('x').map(Number);
          return turns[turn ?? 0]?.[index ?? 0];
        };
        const started = { told: 0, asked: 0 };
        let left = 0;
        let dies = Number.POSITIVE_INFINITY;
        const hooks: Hooks = {
          beforeRunStart: () => ({ kind: 'continue', systemPrompt: `start ${++started.asked}` }),
          onRunStart: () => void started.told++,
          beforeToolCall: ({ call: { name } }) =>
            stepOf(name)?.blocked ? { kind: 'block', reason: 'no' } : { kind: 'proceed' },
        };
        const f = loopFixture({
          hooks,
          tools,
          // The model answers by what it sees, as a model does: how many turns have results.
          script: Array.from({ length: 60 }, () => (request: { messages: readonly { role: string }[] }) => {
            const turn = request.messages.filter(({ role }) => role === 'assistant').length;
            const reply =
              turn < turns.length
                ? say('go', ...(turns[turn] ?? []).map((_, index) => call(`t${turn}x${index}`)))
                : say('end');
            return (async function* () {
              yield { kind: 'completed' as const, reply };
            })();
          }),
          before: () => {
            if (left >= dies) throw new AppError('lease_lost', 'lost');
            left += 1;
          },
        });
        const pending = [...losses];
        let result: Awaited<ReturnType<typeof f.run>>;
        do {
          left = 0;
          dies = pending.shift() ?? Number.POSITIVE_INFINITY;
          result = await f.run();
          if (result.kind === 'waiting_approval') {
            // The row that waits is written behind the facts: a dead runner writes none.
            if (left < dies) {
              f.ledger.wait(result.calls);
              for (const asking of result.calls) f.ledger.decide(asking.call.id, 'approved');
            }
          }
        } while (result.kind !== 'ended' || left >= dies);

        expect(result.end.stopReason).toBe('completed');
        for (const tool of tools) {
          const executions = f.tools.invocations.filter((invocation) => invocation.tool.name === tool.name);
          if (tool.effect === 'effectful') expect(executions.length).toBeLessThanOrEqual(1);
          if (stepOf(tool.name)?.blocked) expect(executions).toEqual([]);
          expect(new Set(executions.map(({ n }) => n)).size).toBe(executions.length);
        }
        const { messages } = f.ledger;
        const proposed = messages.flatMap(({ toolCalls }) => (toolCalls ?? []).map(({ id }) => id));
        const answered = messages.flatMap(({ content }) => ('callId' in content ? [content.callId] : []));
        expect([...answered].sort()).toEqual([...proposed].sort());
        expect(started.told).toBeLessThanOrEqual(1);
        expect(new Set(f.model.requests.map(({ systemPrompt }) => systemPrompt)).size).toBe(1);
      }),
      { numRuns: 200 },
    );
  });
});
