import { AppError, type Message, NO_USAGE } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { type FixtureOptions, loopFixture } from '../testing/loop-fixture.js';
import { done } from '../testing/memory-tools.js';
import { call, say } from '../testing/scripted-model.js';

const WINDOW = 4_000;
const LIMITS = { maxTurns: 10, maxToolCalls: 20, wallTimeMs: 60_000, maxParallelTools: 4 };
const CREATED = '2024-01-01T00:00:00.000Z';

function message(id: string, role: Message['role'], text: string, runId = 'former'): Message {
  return { id, sessionId: 'session', runId, role, content: { text }, eventSeq: 1, createdAt: CREATED };
}

/** Sixteen messages of former runs, about 500 tokens each, and the input of this one. */
const LONG = [
  ...Array.from({ length: 16 }, (_, index) =>
    message(`old-${index}`, index % 2 === 0 ? 'user' : 'assistant', `${index} ${'x'.repeat(2_000)}`),
  ),
  message('own', 'user', 'what now?', 'run'),
];

function fixture(options: FixtureOptions = {}) {
  return loopFixture({
    ...options,
    config: { model: { provider: 'fake', name: 'fake', contextWindow: WINDOW }, ...options.config },
    snapshot: { messages: LONG, ...options.snapshot },
  });
}

const texts = (messages: readonly Message[]) => messages.map(({ content }) => ('text' in content ? content.text : ''));

describe('a context that has become too long', () => {
  it('is summarised by the model before the turn’s own call, which sees the summary, the newest and its input', async () => {
    const loop = fixture({ script: [say('all about x'), say('more about x'), say('fine')] });
    expect(await loop.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'completed' } });
    const [first, second, reply] = loop.model.requests;
    expect(first).toMatchObject({ purpose: 'summary', tools: [], turn: 1, model: { maxOutputTokens: 500 } });
    expect(texts(first?.messages ?? []).at(-1)).toContain('Summarise the conversation');
    expect(texts(second?.messages ?? [])[0]).toContain('all about x');
    expect(reply?.purpose).toBeUndefined();
    const shown = texts(reply?.messages ?? []);
    expect(shown[0]).toContain('more about x');
    expect(shown.at(-1)).toBe('what now?');
    expect(shown.slice(1, -1)).toEqual(texts(LONG.slice(12, 16)));
    expect(loop.journal.filter((line) => /^(model|contextCompacted|assistantStarted|delta)/.test(line))).toEqual([
      'model 1',
      expect.stringMatching(/^contextCompacted \d+$/),
      'model 2',
      expect.stringMatching(/^contextCompacted \d+$/),
      'model 3',
      'assistantStarted 1',
      'delta "fine"',
    ]);
    expect(loop.ledger.snapshot().usage).toEqual({ inputTokens: 30, outputTokens: 15 });
  });

  it('keeps hidden messages whole in every call, and passes every gate of a model call', async () => {
    const asked: string[] = [];
    const hooks: Hooks = {
      beforeRunStart: () => ({ kind: 'continue', hidden: [message('hidden', 'developer', 'never say y')] }),
      transformContext: ({ messages }) => {
        asked.push(`transformContext ${messages.length}`);
        return { kind: 'reply', systemPrompt: 'checked' };
      },
      afterModelCall: ({ message: said }) => {
        asked.push(`afterModelCall ${texts([said])[0]}`);
        return { kind: 'continue', message: { ...said, content: { text: 'as the hook wants it' } } };
      },
      beforeProviderRequest: (request) => ({ kind: 'reply', ...request }),
    };
    const loop = fixture({ hooks, script: [say('one'), say('two'), say('three')] });
    await loop.run();
    expect(loop.model.requests.map(({ systemPrompt }) => systemPrompt)).toEqual(['checked', 'checked', 'checked']);
    expect(loop.model.requests.map(({ messages }) => texts(messages)[0])).toEqual(
      Array.from({ length: 3 }, () => 'never say y'),
    );
    expect(asked.filter((line) => line.startsWith('afterModelCall'))).toEqual([
      'afterModelCall one',
      'afterModelCall two',
      'afterModelCall three',
    ]);
    expect(asked).toHaveLength(6);
    expect(texts(loop.model.requests[1]?.messages ?? [])[1]).toContain('as the hook wants it');
  });

  it('is not summarised again by a later attempt: the checkpoint stands', async () => {
    const aborted = new AbortController();
    const loop = fixture({
      script: [
        say('all about x'),
        say('more about x'),
        () => {
          aborted.abort();
          throw new Error('the runner died');
        },
        say('fine'),
      ],
    });
    expect(await loop.run(aborted.signal)).toMatchObject({ kind: 'stopped' });
    expect(await loop.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'completed' } });
    expect(loop.model.requests.map(({ purpose }) => purpose)).toEqual(['summary', 'summary', undefined, undefined]);
    expect(texts(loop.model.requests[3]?.messages ?? [])).toEqual(texts(loop.model.requests[2]?.messages ?? []));
    expect(loop.journal.filter((line) => line.startsWith('contextCompacted'))).toHaveLength(2);
  });

  it('relies on no summary that was not stored', async () => {
    const loop = fixture({
      script: [say('all about x'), say('never asked')],
      before: (name) => {
        if (name === 'contextCompacted') throw new AppError('lease_lost', 'another runner has it');
      },
    });
    expect(await loop.run()).toMatchObject({ kind: 'stopped', by: 'lease_lost' });
    expect(loop.model.requests).toHaveLength(1);
    expect(loop.ledger.messages).toEqual(LONG);
  });

  it.each<[string, FixtureOptions, object]>([
    [
      'the model fails',
      { script: [new AppError('provider_unavailable', 'it is down')] },
      { stopReason: 'model_error', message: expect.stringContaining('could not be summarised: it is down') },
    ],
    [
      'the summary is empty',
      { script: [say('  ')] },
      { stopReason: 'model_error', message: expect.stringContaining('gave no summary') },
    ],
    [
      'the summary is no shorter',
      { script: [say('y'.repeat(40_000))] },
      { stopReason: 'model_error', message: expect.stringContaining('no shorter') },
    ],
    [
      'a policy stops it',
      { script: [say('x')], hooks: { transformContext: () => ({ kind: 'stop', reason: 'not this', by: 'p' }) } },
      { stopReason: 'stopped_by_hook', message: 'not this' },
    ],
    [
      'a policy could not be asked',
      {
        script: [say('x')],
        hooks: { transformContext: () => ({ kind: 'could_not_ask', code: 'gate_timeout', reason: 'too slow' }) },
      },
      { stopReason: 'gate_timeout' },
    ],
    [
      'a hook stops after it',
      { script: [say('x')], hooks: { afterModelCall: () => ({ kind: 'stop', reason: 'enough' }) } },
      { stopReason: 'stopped_by_hook', message: 'enough' },
    ],
    [
      'the summary uses up the budget',
      { script: [say('x'), say('never')], config: { limits: { ...LIMITS, maxTokens: 15 } } },
      { stopReason: 'budget_exceeded' },
    ],
  ])('ends the run when %s', async (_, options, end) => {
    const loop = fixture(options);
    expect(await loop.run()).toMatchObject({ kind: 'ended', end });
    expect(loop.model.requests.length).toBeLessThanOrEqual(1);
  });

  it.each<[string, FixtureOptions]>([
    ['is empty', { script: [say('  ')] }],
    ['is no shorter', { script: [say('y'.repeat(40_000))] }],
    ['is stopped by a hook', { script: [say('x')], hooks: { afterModelCall: () => ({ kind: 'stop', reason: 'no' }) } }],
    ['breaks a hook', { script: [say('x')], hooks: { afterModelCall: () => Promise.reject(new Error('broken')) } }],
  ])('counts what the summary has cost, also when it %s', async (_, options) => {
    const loop = fixture(options);
    await loop.run();
    expect(loop.ledger.snapshot().usage).toEqual({ inputTokens: 10, outputTokens: 5 });
    expect(loop.journal.filter((line) => /^(usageRecorded|contextCompacted)/.test(line))).toEqual(['usageRecorded 1']);
  });

  it('that cannot be shortened ends the run with the message that is too long, without a model call', async () => {
    const loop = fixture({ snapshot: { messages: [message('own', 'user', 'x'.repeat(100_000), 'run')] } });
    expect(await loop.run()).toMatchObject({
      kind: 'ended',
      end: { stopReason: 'model_error', message: expect.stringContaining('own (user), alone is about 25004 tokens') },
    });
    expect(loop.model.requests).toEqual([]);
  });

  it('is measured by what the provider counted, over attempts too', async () => {
    const history = LONG.slice(0, 5).concat(message('own', 'user', 'what now?', 'run'));
    const counted = { messageId: 'old-3', tokens: 8_000 };
    const loop = fixture({ snapshot: { messages: history, measured: counted }, script: [say('short'), say('fine')] });
    await loop.run();
    expect(loop.model.requests.map(({ purpose }) => purpose)).toEqual(['summary', undefined]);
    const unmeasured = fixture({ snapshot: { messages: history }, script: [say('fine')] });
    await unmeasured.run();
    expect(unmeasured.model.requests).toHaveLength(1);
  });

  it('is shortened in mid-run between two turns, results with their calls', async () => {
    const loop = fixture({
      snapshot: { messages: [message('own', 'user', 'look', 'run')], usage: NO_USAGE },
      tools: [{ name: 'look', effect: 'pure', run: () => done('r'.repeat(8_000)) }],
      script: [say('', call('look')), say('', call('look')), say('looked'), say('fine')],
    });
    expect(await loop.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'completed' } });
    expect(loop.model.requests.map(({ purpose }) => purpose)).toEqual([undefined, undefined, 'summary', undefined]);
    const [, , , last] = loop.model.requests;
    expect(last?.messages.map(({ role }) => role)).toEqual(['user', 'user', 'assistant', 'tool']);
    expect(texts(last?.messages ?? [])[1]).toBe('look');
  });
});
