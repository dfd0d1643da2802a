import { AppError, type Message, type ModelChunk } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { hooksFrom } from '@codedock/hooks';
import { firstSnapshot, loopFixture } from './testing/loop-fixture.js';
import { done } from './testing/memory-tools.js';
import { call, say } from './testing/scripted-model.js';

const COMPLETED = { kind: 'ended', end: { status: 'completed', stopReason: 'completed' } };
const ping = { name: 'ping', effect: 'pure' } as const;
const message = (text: string, role: Message['role'] = 'developer'): Message => ({
  id: text,
  sessionId: 'session',
  role,
  content: { text },
  eventSeq: 0,
  createdAt: '2024-01-01T00:00:00.000Z',
});
const texts = (messages: readonly Message[] | undefined) =>
  messages?.map(({ content }) => ('text' in content ? content.text : content.output));

describe('a run without hooks', () => {
  it('goes from model to tools to model until an answer comes', async () => {
    const f = loopFixture({
      script: [say('one', call('ping', { a: 1 })), say('two')],
      tools: [{ ...ping, run: () => done('pong') }],
    });
    expect(await f.run()).toMatchObject(COMPLETED);
    expect(f.journal.filter((line) => !line.startsWith('model') && !line.startsWith('execute '))).toEqual([
      'runStarted',
      'turnStarted 1',
      'assistantStarted 1',
      'delta "one"',
      'assistantCompleted tool_calls',
      'callGated ping proceed',
      'executionStarted ping 1',
      'executionFinished ping 1 succeeded tool',
      'turnCompleted 1',
      'turnStarted 2',
      'assistantStarted 2',
      'delta "two"',
      'assistantCompleted stop',
      'turnCompleted 2',
    ]);
    expect(f.journal.indexOf('executionStarted ping 1')).toBeLessThan(f.journal.indexOf('execute ping 1 {"a":1}'));
    expect(texts(f.model.requests[1]?.messages)).toEqual(['hello', 'one', 'pong']);
    expect(f.ledger.snapshot()).toMatchObject({ turns: 2, toolCalls: 1, usage: { inputTokens: 20, outputTokens: 10 } });
    expect(f.ledger.snapshot().openTurn).toBeUndefined();
  });

  it('offers the visible tools and records them with the turn', async () => {
    const f = loopFixture({ script: [say('hi')], tools: [ping, { name: 'pong' }] });
    await f.run();
    expect(f.model.requests[0]?.tools.map(({ name }) => name)).toEqual(['ping', 'pong']);
    expect(f.model.requests[0]).toMatchObject({ systemPrompt: 'base prompt', runId: 'run', sessionId: 'session' });
  });

  it('has the same history in memory and in the ledger', async () => {
    const f = loopFixture({ script: [say('one', call('ping'), call('ping')), say('two')], tools: [ping] });
    await f.run();
    const stored = f.ledger.messages.map(({ id, content }) => ({ id, content }));
    const used = f.model.requests[1]?.messages.map(({ id, content }) => ({ id, content }));
    expect(used).toEqual(stored.slice(0, -1));
  });

  it('makes no further model call for a run whose answer a former attempt stored', async () => {
    const first = firstSnapshot();
    const answer = { ...message('done', 'assistant'), runId: 'run' };
    const f = loopFixture({
      snapshot: { turns: 1, start: { systemPrompt: 'x', hidden: [] }, messages: [...first.messages, answer] },
    });
    expect(await f.run()).toMatchObject(COMPLETED);
    expect(f.model.requests).toEqual([]);
  });
});

describe('beforeRunStart', () => {
  const start: Hooks = {
    beforeRunStart: ({ systemPrompt }) => ({
      kind: 'continue',
      systemPrompt: `${systemPrompt}!`,
      hidden: [message('psst')],
    }),
  };

  it('is committed before the start is told and the model is called, and serves every model call', async () => {
    const told: string[] = [];
    const f = loopFixture({
      hooks: { ...start, onRunStart: () => void told.push([...f.journal].join()) },
      script: [say('', call('ping')), say('two')],
      tools: [ping],
    });
    await f.run();
    expect(told).toEqual(['runStarted']);
    for (const request of f.model.requests) {
      expect(request.systemPrompt).toBe('base prompt!');
      expect(texts(request.messages)?.slice(0, 2)).toEqual(['psst', 'hello']);
    }
    expect(texts(f.ledger.messages)).not.toContain('psst');
  });

  it('is asked once across attempts, and the start is told once', async () => {
    const seen: string[] = [];
    const hooks: Hooks = {
      beforeRunStart: () => {
        seen.push('asked');
        return { kind: 'continue', systemPrompt: 'kept' };
      },
      onRunStart: () => void seen.push('told'),
    };
    const f = loopFixture({
      hooks,
      script: [say('', call('ask')), say('two')],
      tools: [{ name: 'ask', requiresApproval: true }],
    });
    const waiting = await f.run();
    if (waiting.kind !== 'waiting_approval') throw new Error(waiting.kind);
    f.ledger.wait(waiting.calls);
    f.ledger.decide(waiting.calls[0]?.call.id ?? '', 'denied');
    await f.run();
    expect(seen).toEqual(['asked', 'told']);
    expect(f.model.requests.map(({ systemPrompt }) => systemPrompt)).toEqual(['kept', 'kept']);
  });

  it.each([
    [
      { kind: 'block', reason: 'no', by: 'policy' },
      { stopReason: 'blocked_by_hook', message: 'no', by: 'policy' },
    ],
    [
      { kind: 'could_not_ask', code: 'gate_timeout', reason: 'late' },
      { stopReason: 'gate_timeout', by: 'host' },
    ],
    [
      { kind: 'could_not_ask', code: 'gate_unavailable', reason: 'gone', by: 'p' },
      { stopReason: 'gate_unavailable', by: 'p' },
    ],
  ] as const)('%j ends the run blocked', async (decision, end) => {
    const told = jest.fn();
    const f = loopFixture({ hooks: { beforeRunStart: () => decision, onRunStart: told } });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'blocked', ...end } });
    expect(f.journal).toEqual([]);
    expect(told).not.toHaveBeenCalled();
  });
});

describe('transformContext', () => {
  it('serves one call alone; the next starts from stored messages', async () => {
    const f = loopFixture({
      hooks: {
        transformContext: ({ messages }) => ({
          kind: 'reply',
          messages: [...messages, message('extra')],
          systemPrompt: 'other',
        }),
      },
      script: [say('one', call('ping')), say('two')],
      tools: [ping],
    });
    await f.run();
    expect(f.model.requests.map(({ messages }) => texts(messages))).toEqual([
      ['hello', 'extra'],
      ['hello', 'one', 'ok', 'extra'],
    ]);
    expect(texts(f.ledger.messages)).not.toContain('extra');
    expect(f.model.requests[1]?.systemPrompt).toBe('other');
  });

  it.each([
    [
      { kind: 'stop', reason: 'enough', by: 'x' },
      { status: 'completed', stopReason: 'stopped_by_hook', message: 'enough', by: 'x' },
    ],
    [
      { kind: 'could_not_ask', code: 'gate_timeout', reason: 'late' },
      { status: 'blocked', stopReason: 'gate_timeout' },
    ],
  ] as const)('%j ends the run before the model is called', async (decision, end) => {
    const f = loopFixture({ hooks: { transformContext: () => decision } });
    expect(await f.run()).toMatchObject({ kind: 'ended', end });
    expect(f.model.requests).toEqual([]);
  });
});

describe('onLoop', () => {
  it('is asked at every back edge and may stop', async () => {
    const seen: number[] = [];
    const f = loopFixture({
      hooks: {
        onLoop: ({ iteration, usage }) => {
          seen.push(iteration, usage.inputTokens);
          return iteration < 3 ? { kind: 'continue' } : { kind: 'stop', reason: 'three is enough' };
        },
      },
      script: [say('', call('ping')), say('', call('ping'))],
      tools: [ping],
    });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'stopped_by_hook' } });
    expect(seen).toEqual([2, 10, 3, 20]);
    expect(f.ledger.snapshot().turns).toBe(2);
  });
});

describe('afterModelCall', () => {
  it('changes the message before anything of it is stored or acted on', async () => {
    const f = loopFixture({
      hooks: {
        afterModelCall: ({ message: said }) => ({
          kind: 'continue',
          message: {
            ...said,
            id: 'mine',
            content: { text: 'clean' },
            toolCalls: said.toolCalls?.map((c) => ({ ...c, arguments: { b: 2 } })) ?? [],
          },
        }),
      },
      script: [say('dirty', call('ping', { a: 1 })), say('end')],
      tools: [ping],
    });
    await f.run();
    expect(texts(f.ledger.messages)?.[1]).toBe('clean');
    expect(f.ledger.messages[1]?.id).not.toBe('mine');
    expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual([{ b: 2 }]);
  });

  it('stop stores the reply, fails its open calls as stopped and completes the run', async () => {
    const f = loopFixture({
      hooks: { afterModelCall: () => ({ kind: 'stop', reason: 'enough', by: 'x' }) },
      script: [say('one', call('ping'))],
      tools: [ping],
    });
    expect(await f.run()).toMatchObject({
      kind: 'ended',
      end: { status: 'completed', stopReason: 'stopped_by_hook', message: 'enough', by: 'x' },
    });
    expect(f.journal.slice(-3)).toEqual([
      'assistantCompleted tool_calls',
      'callSettled ping failed hook by x',
      'turnCompleted 1',
    ]);
    expect(texts(f.ledger.messages)).toEqual(['hello', 'one', 'stopped']);
    expect(f.tools.invocations).toEqual([]);
  });
});

describe('what hooks throw', () => {
  const boom = () => {
    throw new Error('secret detail');
  };
  it.each([
    ['beforeRunStart', { beforeRunStart: boom }],
    ['onLoop', { onLoop: boom }],
    ['transformContext', { transformContext: boom }],
    ['afterModelCall', { afterModelCall: boom }],
    ['beforeToolCall', { beforeToolCall: boom }],
  ] as const)('%s: the run fails with hook_error and the cause is reported, not shown', async (gate, hooks) => {
    const f = loopFixture({ hooks, script: [say('', call('ping')), say('')], tools: [ping] });
    const result = await f.run();
    expect(result).toMatchObject({ kind: 'ended', end: { status: 'failed', stopReason: 'hook_error' } });
    expect(JSON.stringify(result)).not.toContain('secret detail');
    expect(f.reported).toMatchObject([{ where: gate, error: { message: 'secret detail' } }]);
  });

  it('names the hook where it is known', async () => {
    const { hooks } = hooksFrom({ name: 'repair', onModelStart: boom });
    const f = loopFixture({ hooks });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'hook_error', by: 'repair' } });
  });

  it('an answer that is no decision is a broken hook, never a pass', async () => {
    const hooks = { beforeToolCall: () => ({ kind: 'continue' }) } as unknown as Hooks;
    const f = loopFixture({ hooks, script: [say('', call('ping'))], tools: [ping] });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'hook_error' } });
    expect(f.tools.invocations).toEqual([]);
  });

  it('what notifications throw changes nothing, and a hanging one holds nothing', async () => {
    const names = ['onRunStart', 'onTurnStart', 'onToolExecutionStart', 'onTurnEnd'] as const;
    const throwing = Object.fromEntries(names.map((name) => [name, boom])) as Hooks;
    const hanging = Object.fromEntries(names.map((name) => [name, () => new Promise(() => undefined)])) as Hooks;
    for (const hooks of [throwing, hanging]) {
      const f = loopFixture({ hooks, script: [say('', call('ping')), say('')], tools: [ping] });
      expect(await f.run()).toMatchObject(COMPLETED);
    }
  });
});

describe('notifications', () => {
  it('are told in order, with what they are about', async () => {
    const seen: string[] = [];
    const hooks: Hooks = {
      onRunStart: ({ runId }) => void seen.push(`run ${runId}`),
      onTurnStart: ({ iteration, resumed }) => void seen.push(`turn ${iteration} ${resumed}`),
      onToolExecutionStart: ({ call: { name, arguments: args }, n }) =>
        void seen.push(`execute ${name} ${n} ${JSON.stringify(args)}`),
      onTurnEnd: ({ iteration }) => void seen.push(`end ${iteration}`),
    };
    const f = loopFixture({ hooks, script: [say('', call('ping', { a: 1 })), say('x')], tools: [ping] });
    await f.run();
    expect(seen).toEqual(['run run', 'turn 1 false', 'execute ping 1 {"a":1}', 'end 1', 'turn 2 false', 'end 2']);
  });
});

describe('limits', () => {
  const loops = [1, 2, 3, 4].map(() => say('', call('ping')));
  it.each([
    ['maxTurns', { maxTurns: 2 }, 'max_turns', 2, 2],
    ['maxToolCalls', { maxToolCalls: 1 }, 'max_tool_calls', 2, 1],
    ['maxTokens, exceeded by a reply with calls', { maxTokens: 20 }, 'budget_exceeded', 2, 1],
    ['maxTokens, reached', { maxTokens: 30 }, 'budget_exceeded', 2, 2],
  ] as const)(
    '%s: failed with its reason, nothing more executed',
    async (_, limits, stopReason, models, executions) => {
      const base = firstSnapshot().config.limits;
      const f = loopFixture({ script: loops, tools: [ping], config: { limits: { ...base, ...limits } } });
      expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'failed', stopReason } });
      expect([f.model.requests.length, f.tools.invocations.length]).toEqual([models, executions]);
      // Every call has a result, and the last turn is closed.
      const results = f.ledger.messages.filter(({ role }) => role === 'tool');
      expect(results).toHaveLength(f.ledger.snapshot().toolCalls);
      expect(f.ledger.snapshot().openTurn).toBeUndefined();
    },
  );

  it('lets an answer stand that used up the tokens', async () => {
    const base = firstSnapshot().config.limits;
    const f = loopFixture({ script: [say('done')], config: { limits: { ...base, maxTokens: 1 } } });
    expect(await f.run()).toMatchObject(COMPLETED);
  });
});

describe('the model', () => {
  it.each([
    [
      'throws',
      new AppError('provider_throttled', 'The provider is busy; try later.'),
      'The provider is busy; try later.',
    ],
    ['breaks', new Error('internal detail'), 'The model provider failed; the cause is in the logs.'],
    [
      'ends early',
      [{ kind: 'delta', text: 'x' }] as readonly ModelChunk[],
      'The model provider ended its stream before the reply was complete.',
    ],
  ])('%s: failed, model_error, with a safe message', async (_, step, shown) => {
    const f = loopFixture({ script: [step] });
    expect(await f.run()).toMatchObject({
      kind: 'ended',
      end: { status: 'failed', stopReason: 'model_error', message: shown },
    });
  });

  it('restarts: the former deltas are superseded', async () => {
    const chunks: ModelChunk[] = [
      { kind: 'delta', text: 'bro' },
      { kind: 'restarted' },
      { kind: 'delta', text: 'whole' },
      { kind: 'completed', reply: say('whole') },
    ];
    const f = loopFixture({ script: [chunks] });
    await f.run();
    expect(f.journal.slice(3)).toEqual([
      'assistantStarted 1',
      'delta "bro"',
      'turnRestarted 1 model_retry',
      'assistantStarted 1',
      'delta "whole"',
      'assistantCompleted stop',
      'turnCompleted 1',
    ]);
  });

  it('holds deltas until afterModelCall has answered, and makes them from its message', async () => {
    const f = loopFixture({
      config: { holdDeltas: true },
      hooks: {
        afterModelCall: async ({ message: said }) => {
          expect(f.ledger.deltas).toEqual([]);
          return { kind: 'continue', message: { ...said, content: { text: 'clean' } } };
        },
      },
      script: [say('dirty')],
    });
    expect(await f.run()).toMatchObject(COMPLETED);
    expect(f.ledger.deltas).toEqual(['clean']);
    expect(f.journal.join()).not.toContain('dirty');
  });

  it('text is made well-formed, pairs across deltas stay whole, and the repair is recorded', async () => {
    const text = 'a\u0000\ud83d\ude00\ud800';
    const chunks: ModelChunk[] = [...text]
      .flatMap((c) => [...c.split('')])
      .map((unit) => ({ kind: 'delta', text: unit }));
    const reply = say(text, call('ping', { 'k\u0000': '\ud800' }));
    const f = loopFixture({ script: [[...chunks, { kind: 'completed', reply }], say('fine')], tools: [ping] });
    await f.run();
    expect(f.ledger.deltas.slice(0, -1).join('')).toBe('a\ufffd\ud83d\ude00\ufffd');
    expect(f.ledger.replies.map(({ repaired }) => repaired ?? false)).toEqual([true, false]);
    expect(f.tools.invocations[0]?.arguments).toEqual({ 'k\ufffd': '\ufffd' });
  });
});

describe('extensions', () => {
  it('see the run, keep metadata across attempts and emit', async () => {
    const seen: unknown[] = [];
    const { hooks } = hooksFrom({
      name: 'tiny',
      onStart: ({ metadata }) => metadata.set('started', true),
      onModelStart: ({ state, emit }) => {
        seen.push([
          state.run.id,
          state.turn?.iteration,
          state.iteration,
          state.messages.length,
          state.usage.inputTokens,
        ]);
        emit('called', { n: state.iteration });
      },
      onToolStart: ({ metadata }) => metadata.set('tools', Number(metadata.get('tools') ?? 0) + 1),
    });
    const f = loopFixture({ hooks: hooks, script: [say('', call('ping'), call('ping')), say('x')], tools: [ping] });
    const result = await f.run();
    expect(result).toMatchObject(COMPLETED);
    expect(seen).toEqual([
      ['run', 1, 1, 1, 0],
      ['run', 2, 2, 4, 10],
    ]);
    expect(f.ledger.snapshot().metadata).toEqual({ started: true, tools: 2 });
    expect(f.journal).toContain('extensionEmitted tiny called {"n":2}');
    expect(result.kind === 'ended' && result.view?.metadata).toEqual({ started: true, tools: 2 });
  });
});
