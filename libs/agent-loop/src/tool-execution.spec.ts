import { AppError, type EffectClass, type ToolExecution } from '@codedock/domain';
import type { GateHook, ToolCallDecision } from '@codedock/hooks';
import { loopFixture } from './testing/loop-fixture.js';
import { done, failed, type TestTool } from './testing/memory-tools.js';
import { call, say } from './testing/scripted-model.js';

const executing = (tool: Omit<TestTool, 'name'>, options: Parameters<typeof loopFixture>[0] = {}) =>
  loopFixture({ script: [say('', call('tool')), say('end')], tools: [{ name: 'tool', ...tool }], ...options });
const inTurn = (...executions: ToolExecution[]) => {
  let next = 0;
  return () => {
    next += 1;
    return executions[next - 1] ?? done('too many');
  };
};
const unknown: ToolExecution = { kind: 'unknown', error: 'plugin died' };
const reply =
  (changes: object): GateHook<'afterToolCall'> =>
  () => ({ kind: 'reply', ...changes });

describe('retries', () => {
  it.each<[string, EffectClass, ToolExecution[], number, string]>([
    [
      'a failing pure tool is executed again until it succeeds',
      'pure',
      [failed(), failed(), done()],
      3,
      'executionFinished tool 3 succeeded tool',
    ],
    [
      'a failing idempotent tool is executed at most maxAttempts times',
      'idempotent',
      [failed(), failed(), failed(), done()],
      3,
      'executionFinished tool 3 failed tool',
    ],
    ['a failing effectful tool is executed once', 'effectful', [failed()], 1, 'executionFinished tool 1 failed tool'],
    [
      'a failure of the host is not retried',
      'pure',
      [failed('no slot', 'host')],
      1,
      'executionFinished tool 1 failed host',
    ],
    [
      'an unknown outcome of a pure tool is tried again',
      'pure',
      [unknown, done()],
      2,
      'executionFinished tool 2 succeeded tool',
    ],
    ['an unknown outcome of an effectful tool stays unknown', 'effectful', [unknown], 1, 'executionUnknown tool 1'],
    [
      'an unknown outcome that never resolves ends unknown',
      'pure',
      [unknown, unknown, unknown],
      3,
      'executionUnknown tool 3',
    ],
  ])('%s', async (_, effect, executions, count, line) => {
    const f = executing({ effect, run: inTurn(...executions) });
    await f.run();
    expect(f.tools.invocations.map(({ n }) => n)).toEqual(Array.from({ length: count }, (__, index) => index + 1));
    expect(new Set(f.tools.invocations.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(f.journal).toContain(line);
    expect(f.journal.filter((entry) => entry.startsWith('executionRetried'))).toHaveLength(count - 1);
    expect(f.journal.filter((entry) => entry.startsWith('executionStarted'))).toHaveLength(count);
  });

  it('backs off, doubling up to the limit', async () => {
    const f = executing({ effect: 'pure', run: () => failed() });
    await f.run();
    expect(f.sleeps).toEqual([10, 15]);
  });

  it('a tool that has become effectful since the model called it is executed once', async () => {
    const f = executing(
      { effect: 'pure', run: () => failed() },
      {
        hooks: {
          beforeToolCall: () => {
            f.tools.replace([{ name: 'tool', effect: 'effectful', run: () => failed() }]);
            return { kind: 'proceed' };
          },
        },
      },
    );
    await f.run();
    expect(f.tools.invocations).toHaveLength(1);
  });

  describe('when the policies are others by then', () => {
    const replaced = (decision: ToolCallDecision, first: ToolExecution = failed(), tool: Partial<TestTool> = {}) => {
      const gate = jest.fn((): ToolCallDecision => (gate.mock.calls.length === 1 ? { kind: 'proceed' } : decision));
      const f = executing(
        {
          effect: 'pure',
          run: ({ n }) => {
            f.policies.version = 'v2';
            return n === 1 ? first : done();
          },
          ...tool,
        },
        { hooks: { beforeToolCall: gate } },
      );
      return { f, gate };
    };

    it.each<[string, ToolCallDecision, number, unknown]>([
      ['blocks', { kind: 'block', reason: 'new rule' }, 1, 'Blocked: new rule'],
      ['skips', { kind: 'skip', result: 'cached' }, 1, 'cached'],
      [
        'asks',
        { kind: 'ask', reasons: [{ by: 'p', reason: 'r' }] },
        1,
        'Failed, and not executed again: a policy now wants it approved.',
      ],
      [
        'changes the arguments',
        { kind: 'proceed', arguments: { other: 1 } },
        1,
        'Failed, and not executed again: a policy has changed its arguments since.',
      ],
      ['proceeds', { kind: 'proceed' }, 2, 'ok'],
    ])('they are asked before the next execution: one that %s', async (_, decision, executions, told) => {
      const { f, gate } = replaced(decision);
      expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
      expect(gate).toHaveBeenCalledTimes(2);
      expect(f.tools.invocations).toHaveLength(executions);
      expect(f.journal.filter((entry) => entry.startsWith('executionStarted'))).toHaveLength(executions);
      expect(f.told()).toEqual([told]);
    });

    it('a block ends the call as failed, in the name of the hook', async () => {
      const { f } = replaced({ kind: 'block', reason: 'new rule' });
      await f.run();
      expect(f.journal).toContain('executionFinished tool 1 failed hook');
    });

    it('an unknown outcome is not told as a failure', async () => {
      const { f } = replaced({ kind: 'ask', reasons: [{ by: 'p', reason: 'r' }] }, unknown);
      await f.run();
      expect(f.told()).toEqual([expect.stringMatching(/^Without an outcome, and not executed again/)]);
    });

    it('an abort ends the run', async () => {
      const { f } = replaced({ kind: 'abort', reason: 'no' });
      expect(await f.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'aborted_by_hook' } });
      expect(f.tools.invocations).toHaveLength(1);
    });
  });

  it('asks nobody again while the policies are the same', async () => {
    const gate = jest.fn((): ToolCallDecision => ({ kind: 'proceed' }));
    await executing({ effect: 'pure', run: () => failed() }, { hooks: { beforeToolCall: gate } }).run();
    expect(gate).toHaveBeenCalledTimes(1);
  });

  it('a tool that is gone, or has become effectful, is not executed again', async () => {
    const gone = executing({
      effect: 'pure',
      run: () => {
        gone.tools.replace([]);
        return failed();
      },
    });
    await gone.run();
    expect(gone.told()).toEqual(['Failed, and not executed again: there is no tool tool any more.']);
    const effectful = executing({
      effect: 'pure',
      run: () => {
        effectful.tools.replace([{ name: 'tool', effect: 'effectful' }]);
        return failed('broken');
      },
    });
    await effectful.run();
    expect(effectful.tools.invocations).toHaveLength(1);
    expect(effectful.told()).toEqual([{ error: 'broken' }]);
  });

  it('tells the model that an outcome is unknown', async () => {
    const f = executing({ run: () => unknown });
    await f.run();
    expect(f.told()).toEqual([expect.stringContaining('The outcome of tool is unknown (plugin died)')]);
  });

  it('takes a rejecting port for an unknown outcome', async () => {
    const f = executing({ run: () => Promise.reject(new Error('bug')) });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.journal).toContain('executionUnknown tool 1');
    expect(f.reported).toMatchObject([{ where: 'tool' }]);
  });
});

describe('afterToolCall', () => {
  it('is asked on each attempt with what the tool gave and which attempt it was', async () => {
    const seen: unknown[] = [];
    const f = executing(
      { effect: 'pure', run: inTurn(failed('one'), done('two')) },
      {
        hooks: {
          afterToolCall: ({ result, n }) => {
            seen.push([n, result.success, result.error ?? result.output]);
            return { kind: 'reply' };
          },
        },
      },
    );
    await f.run();
    expect(seen).toEqual([
      [1, false, 'one'],
      [2, true, 'two'],
    ]);
  });

  it('changes field by field what is stored and shown', async () => {
    const f = executing(
      { run: () => done('AKIA secret') },
      { hooks: { afterToolCall: reply({ output: '[redacted]' }) } },
    );
    await f.run();
    expect(f.told()).toEqual(['[redacted]']);
    expect(f.ledger.messages.map(({ content }) => JSON.stringify(content)).join()).not.toContain('AKIA');
  });

  it('success: true ends retries', async () => {
    const f = executing(
      { effect: 'pure', run: () => failed() },
      { hooks: { afterToolCall: reply({ success: true, error: null, output: 'fine' }) } },
    );
    await f.run();
    expect(f.tools.invocations).toHaveLength(1);
    expect(f.told()).toEqual(['fine']);
  });

  it.each<[EffectClass, number]>([
    ['pure', 3],
    ['idempotent', 3],
    ['effectful', 1],
  ])('success: false lets the retry policy run on %s tools: %d executions', async (effect, count) => {
    const f = executing({ effect }, { hooks: { afterToolCall: reply({ success: false, error: 'not good enough' }) } });
    await f.run();
    expect(f.tools.invocations).toHaveLength(count);
    expect(f.told()).toEqual([{ error: 'not good enough', output: 'ok' }]);
  });

  it('a hook that breaks leaves the result as it was, recorded', async () => {
    const f = executing(
      {},
      {
        hooks: {
          afterToolCall: () => {
            throw new Error('boom');
          },
        },
      },
    );
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.told()).toEqual(['ok']);
    expect(f.ledger.records).toMatchObject([{ gate: 'afterToolCall', outcome: 'error' }]);
  });

  it('closed and not asked: the output is withheld, and nothing is executed again', async () => {
    const f = executing(
      { effect: 'pure', run: () => done('secret') },
      {
        hooks: { afterToolCall: () => ({ kind: 'could_not_ask', code: 'gate_timeout', reason: 'late' }) },
      },
    );
    await f.run();
    expect(f.told()).toEqual(['result withheld: policy could not be asked']);
    expect(f.journal).toContain('executionFinished tool 1 failed host');
    expect(f.tools.invocations).toHaveLength(1);
    expect(JSON.stringify(f.ledger.messages)).not.toContain('secret');
  });

  it('is not asked after block or skip', async () => {
    const after = jest.fn(() => ({ kind: 'reply' as const }));
    for (const decision of [
      { kind: 'block', reason: 'no' },
      { kind: 'skip', result: 1 },
    ] as const) {
      await executing({}, { hooks: { beforeToolCall: () => decision, afterToolCall: after } }).run();
    }
    expect(after).not.toHaveBeenCalled();
  });

  it('results are made well-formed, whoever wrote them', async () => {
    const f = executing({
      run: () => ({
        kind: 'result',
        result: { success: false, output: { 'k\u0000': '\ud800' }, error: 'e\u0000' },
        source: 'tool',
      }),
    });
    await f.run();
    expect(f.told()).toEqual([{ error: 'e\ufffd', output: { 'k\ufffd': '\ufffd' } }]);
    const g = executing({}, { hooks: { afterToolCall: reply({ output: '\udc00' }) } });
    await g.run();
    expect(g.told()).toEqual(['\ufffd']);
  });
});

describe('the execution row', () => {
  it('is committed before the tool is touched', async () => {
    let commit: () => void = () => undefined;
    const committed = new Promise<void>((resolve) => {
      commit = resolve;
    });
    const reached = new Promise<void>((resolve) => {
      const f = executing(
        {},
        {
          before: (name) => {
            if (name !== 'executionStarted') return undefined;
            expect(f.tools.invocations).toEqual([]);
            resolve();
            return committed;
          },
        },
      );
      void f.run().then(() => expect(f.tools.invocations).toHaveLength(1));
      fixture = f;
    });
    await reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect(fixture?.tools.invocations).toEqual([]);
    commit();
    await fixture?.ledger.idle();
  });
  let fixture: ReturnType<typeof executing> | undefined;

  it('refused for a broken seal: back to the gate, then executed for what the gate now says', async () => {
    let broken = false;
    const gate = jest.fn(() => ({ kind: 'proceed' as const }));
    const f = executing(
      {},
      {
        hooks: { beforeToolCall: gate },
        before: (name) => {
          if (name !== 'executionStarted' || broken) return;
          broken = true;
          throw new AppError('seal_broken', 'sealed differently');
        },
      },
    );
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect([gate.mock.calls.length, f.tools.invocations.length]).toEqual([2, 1]);
  });

  it('refused again and again: a failed result, no execution, no endless loop', async () => {
    const f = executing(
      {},
      {
        before: (name) => {
          if (name === 'executionStarted') throw new AppError('seal_broken', 'sealed differently');
        },
      },
    );
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.tools.invocations).toEqual([]);
    expect(f.told()).toEqual([expect.stringContaining('changed again and again')]);
  });

  it('is preceded by one more look at the policies: a new one is asked', async () => {
    const f = loopFixture({
      script: [say('', call('first'), call('second')), say('end')],
      config: { limits: { maxTurns: 5, maxToolCalls: 5, wallTimeMs: 1, maxParallelTools: 1 } },
      tools: [
        {
          name: 'first',
          run: () => {
            f.policies.version = 'v2';
            return done();
          },
        },
        { name: 'second' },
      ],
      hooks: {
        beforeToolCall: ({ call: { name } }) =>
          name === 'second' && f.policies.version === 'v2'
            ? { kind: 'block', reason: 'new rule' }
            : { kind: 'proceed' },
      },
    });
    await f.run();
    expect(f.tools.invocations.map(({ tool }) => tool.name)).toEqual(['first']);
    expect(f.told()).toEqual(['ok', 'Blocked: new rule']);
  });
});
