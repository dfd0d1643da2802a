import type { JsonValue, ToolCallState } from '@codedock/domain';
import type { GateHook, Hooks, ToolCallDecision } from '@codedock/hooks';
import fc from 'fast-check';
import type { LoopResult } from './loop-result.js';
import { firstSnapshot, loopFixture } from './testing/loop-fixture.js';
import { done, type TestTool } from './testing/memory-tools.js';
import { call, say } from './testing/scripted-model.js';

const ping: TestTool = { name: 'ping', effect: 'pure' };
const wire: TestTool = {
  name: 'wire',
  accepts: (args) => ((args as { amount?: number }).amount === undefined ? '/amount is required' : undefined),
};
const because = (by: string, reason = 'look') => ({ kind: 'ask', reasons: [{ by, reason }] }) as const;

const callsOf = (result: LoopResult) => {
  if (result.kind !== 'waiting_approval') throw new Error(`expected to wait, got ${JSON.stringify(result)}`);
  return result.calls;
};
/** One turn with these calls, then an answer. */
const turnOf = (calls: ReturnType<typeof call>[], options: Parameters<typeof loopFixture>[0] = {}) =>
  loopFixture({ script: [say('', ...calls), say('end')], tools: [ping, wire], ...options });

describe('the fixed order', () => {
  it('looks up, validates, permits, asks the gate, then a person, executes and stores', async () => {
    const order: string[] = [];
    const f = turnOf([call('wire', { amount: 1 })], {
      tools: [
        {
          ...wire,
          requiresApproval: true,
          accepts: () => void order.push('validate'),
          run: () => {
            order.push('execute');
            return done();
          },
        },
      ],
      hooks: {
        beforeToolCall: ({ tool }) => {
          order.push(`gate ${tool.requiresApproval} ${tool.effect}`);
          return { kind: 'proceed' };
        },
        afterToolCall: () => {
          order.push('after');
          return { kind: 'reply' };
        },
      },
    });
    const calls = callsOf(await f.run());
    expect(order).toEqual(['validate', 'gate true effectful']);
    f.ledger.wait(calls);
    f.ledger.decide(calls[0]?.call.id ?? '', 'approved');
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(order).toEqual(['validate', 'gate true effectful', 'execute', 'after']);
  });

  it.each([
    ['an unknown tool', call('nope'), 'There is no tool "nope". Offered: ping, wire.', {}],
    [
      'arguments that are not JSON',
      call('wire', { raw: '{"amount": 1' }),
      'The arguments of wire are invalid: they are not valid JSON',
      {},
    ],
    ['arguments of the wrong shape', call('wire', {}), 'The arguments of wire are invalid: /amount is required', {}],
    [
      'a tool the profile denies',
      call('ping'),
      "The tool ping is denied by the agent's profile.",
      { deniedTools: ['ping'] },
    ],
  ])('%s: a failed result that says so; no gate, no approval, no execution', async (_, proposed, text, config) => {
    const gate = jest.fn((): ToolCallDecision => ({ kind: 'proceed' }));
    const f = turnOf([proposed], { hooks: { beforeToolCall: gate }, config });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.told()[0]).toEqual(expect.stringContaining(text));
    expect(f.journal).toContain(`callSettled ${proposed.name} failed host`);
    expect(gate).not.toHaveBeenCalled();
    expect(f.tools.invocations).toEqual([]);
  });

  it('refuses a tool that was not offered in this turn', async () => {
    const f = turnOf([call('ping')], { tools: [wire] });
    const lookup = jest.spyOn(f.tools, 'lookup').mockReturnValue({
      ...ping,
      description: '',
      parameters: {},
      requiresApproval: false,
      effect: 'pure',
      timeoutMs: 1,
      schemaDigest: '',
    });
    await f.run();
    expect(lookup).toHaveBeenCalled();
    expect(f.told()).toEqual(['The tool ping was not offered in this turn.']);
  });

  it('takes an empty argument text for no arguments', async () => {
    const f = turnOf([call('ping', { raw: ' ' })]);
    await f.run();
    expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual([{}]);
  });

  it("validates changed arguments once more, and a failure is the host's", async () => {
    const f = turnOf([call('wire', { amount: 1 })], {
      hooks: { beforeToolCall: () => ({ kind: 'proceed', arguments: { to: 'x' } }) },
    });
    await f.run();
    expect(f.told()).toEqual([
      expect.stringContaining('a policy changed the call. The arguments of wire are invalid: /amount'),
    ]);
    expect(f.journal).toContain('callSettled wire failed host by host');
    expect(f.tools.invocations).toEqual([]);
  });

  it('does not validate again what has not changed by value', async () => {
    const accepts = jest.fn(() => undefined);
    const f = turnOf([call('wire', { a: 1, b: 2 })], {
      tools: [{ ...wire, accepts }],
      hooks: { beforeToolCall: () => ({ kind: 'proceed', arguments: { b: 2, a: 1 } }) },
    });
    await f.run();
    expect(accepts).toHaveBeenCalledTimes(1);
  });
});

describe('decisions', () => {
  it.each<
    [
      string,
      ToolCallDecision | { kind: 'could_not_ask'; code: 'gate_timeout'; reason: string; by?: string },
      string,
      unknown,
    ]
  >([
    ['block', { kind: 'block', reason: 'never', by: 'p' }, 'callSettled ping blocked hook by p', 'Blocked: never'],
    ['skip', { kind: 'skip', result: { cached: 1 }, by: 'p' }, 'callSettled ping skipped hook by p', { cached: 1 }],
    [
      'could not ask',
      { kind: 'could_not_ask', code: 'gate_timeout', reason: 'late' },
      'callSettled ping failed host by host',
      'Not executed: the host could not ask the policy (gate_timeout). late',
    ],
    [
      'could not ask, a plugin failed',
      { kind: 'could_not_ask', code: 'gate_timeout', reason: 'late', by: 'p' },
      'callSettled ping failed host by p',
      expect.stringContaining('host'),
    ],
  ])('%s: stored without executing, and the run goes on', async (_, decision, line, told) => {
    const f = turnOf([call('ping')], { hooks: { beforeToolCall: () => decision } });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.journal).toContain(line);
    expect(f.told()).toEqual([told]);
    expect(f.tools.invocations).toEqual([]);
  });

  it('abort ends the run and nothing of the turn executes', async () => {
    const f = turnOf([call('ping'), call('wire', { amount: 1 })], {
      hooks: {
        beforeToolCall: ({ call: { name } }) =>
          name === 'wire' ? { kind: 'abort', reason: 'fraud', by: 'p' } : { kind: 'proceed' },
      },
    });
    expect(await f.run()).toMatchObject({
      kind: 'ended',
      end: { status: 'blocked', stopReason: 'aborted_by_hook', message: 'fraud', by: 'p' },
    });
    expect(f.tools.invocations).toEqual([]);
  });

  it('abort does not wait for the gates of the other calls, and stops them', async () => {
    let aborted = false;
    const f = turnOf([call('ping'), call('wire', { amount: 1 })], {
      hooks: {
        beforeToolCall: ({ call: { name } }, { signal }) => {
          if (name === 'wire') return { kind: 'abort', reason: 'fraud' };
          signal.addEventListener('abort', () => {
            aborted = true;
          });
          return new Promise(() => undefined);
        },
      },
    });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { stopReason: 'aborted_by_hook' } });
    expect(aborted).toBe(true);
  });

  it('gates all calls, at the same time, before any executes', async () => {
    let open = 0;
    let most = 0;
    const f = turnOf([call('ping'), call('ping'), call('ping')], {
      hooks: {
        beforeToolCall: async () => {
          expect(f.tools.invocations).toEqual([]);
          open += 1;
          most = Math.max(most, open);
          await Promise.resolve();
          open -= 1;
          return { kind: 'proceed' };
        },
      },
    });
    await f.run();
    expect([most, f.tools.invocations.length]).toEqual([3, 3]);
  });
});

describe('approval', () => {
  const danger: TestTool = { name: 'danger', requiresApproval: true };

  it('asks once per turn, with all asking calls and all reasons, and executes nothing before', async () => {
    const f = turnOf([call('ping'), call('danger', { a: 1 }), call('wire', { amount: 1 })], {
      tools: [ping, wire, danger],
      hooks: {
        beforeToolCall: ({ call: { name } }) =>
          name === 'ping' ? { kind: 'proceed' } : { ...because('p'), arguments: { amount: 2 } },
      },
    });
    const calls = callsOf(await f.run());
    expect(
      calls.map((asking) => [asking.call.name, asking.call.arguments, asking.reasons.map(({ by }) => by)]),
    ).toEqual([
      ['danger', { amount: 2 }, ['p', 'tool']],
      ['wire', { amount: 2 }, ['p']],
    ]);
    for (const { call: asked, gated } of calls) {
      expect(gated).toMatchObject({ decision: 'ask', gateVersion: 'v1' });
      expect(gated.digest).toContain(JSON.stringify(asked.arguments));
    }
    expect(f.tools.invocations).toEqual([]);
    expect(f.model.requests).toHaveLength(1);
  });

  it.each([
    ['manual', 'the tool', 'waits'],
    ['manual', 'a hook', 'waits'],
    ['auto', 'the tool', 'executes'],
    ['auto', 'a hook', 'waits'],
    ['never', 'the tool', 'is denied'],
    ['never', 'a hook', 'is denied'],
  ] as const)('mode %s, %s asks: %s', async (approvalMode, who, outcome) => {
    const f = turnOf([call(who === 'the tool' ? 'danger' : 'ping')], {
      tools: [ping, danger],
      config: { approvalMode },
      hooks: who === 'the tool' ? {} : { beforeToolCall: () => because('p', 'odd') },
    });
    const result = await f.run();
    expect([result.kind === 'waiting_approval', f.tools.invocations.length]).toEqual([
      outcome === 'waits',
      outcome === 'executes' ? 1 : 0,
    ]);
    if (outcome === 'is denied') expect(f.told()).toEqual([expect.stringContaining('Denied: this run asks nobody')]);
  });

  const waiting = async (hooks: Hooks = {}, calls = [call('danger', { a: 1 })]) => {
    const f = turnOf(calls, { tools: [ping, danger], hooks });
    const asking = callsOf(await f.run());
    f.ledger.wait(asking);
    return { ...f, ids: asking.map(({ call: asked }) => asked.id) };
  };

  it('an approved call is executed once and its gate is not asked again', async () => {
    const gate = jest.fn((): ToolCallDecision => ({ kind: 'proceed' }));
    const f = await waiting({ beforeToolCall: gate });
    f.ledger.decide(f.ids[0] ?? '', 'approved');
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(gate).toHaveBeenCalledTimes(1);
    expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual([{ a: 1 }]);
    expect(f.model.requests).toHaveLength(2);
    expect(f.journal).toContain('turnResumed 1');
  });

  it('a denied call tells the model why; its neighbour is executed', async () => {
    const f = await waiting({}, [call('danger', { a: 1 }), call('ping'), call('danger', { a: 2 })]);
    f.ledger.decide(f.ids[0] ?? '', 'denied', 'too much');
    f.ledger.decide(f.ids[1] ?? '', 'denied');
    await f.run();
    expect(f.told()).toEqual(expect.arrayContaining(['Denied by a person: too much', 'Denied by a person.', 'ok']));
    expect(f.journal).toContain('callSettled danger denied person');
    expect(f.tools.invocations.map(({ tool }) => tool.name)).toEqual(['ping']);
  });

  it('tells a resumed turn as resumed', async () => {
    const turns: unknown[] = [];
    const hooks: Hooks = { onTurnStart: ({ iteration, resumed }) => void turns.push([iteration, resumed]) };
    const f = await waiting(hooks);
    f.ledger.decide(f.ids[0] ?? '', 'approved');
    await f.run();
    expect(turns).toEqual([
      [1, false],
      [1, true],
      [2, false],
    ]);
  });

  describe('other policies than at the approval', () => {
    it.each<
      [string, ToolCallDecision | { kind: 'could_not_ask'; code: 'gate_unavailable'; reason: string }, string, number]
    >([
      ['proceed', { kind: 'proceed' }, 'executionStarted danger 1', 1],
      ['proceed with the same arguments', { kind: 'proceed', arguments: { a: 1 } }, 'executionStarted danger 1', 1],
      ['ask with the same arguments', because('q'), 'executionStarted danger 1', 1],
      ['block', { kind: 'block', reason: 'no' }, 'callSettled danger blocked hook', 0],
      ['skip', { kind: 'skip', result: 1 }, 'callSettled danger skipped hook', 0],
      [
        'could not ask',
        { kind: 'could_not_ask', code: 'gate_unavailable', reason: 'gone' },
        'callSettled danger failed host by host',
        0,
      ],
    ])('%s', async (_, decision, line, executions) => {
      const f = await waiting({ beforeToolCall: () => ({ kind: 'proceed' }) });
      f.ledger.decide(f.ids[0] ?? '', 'approved');
      f.policies.version = 'v2';
      const gate = jest.fn(() => decision);
      expect(await f.run(undefined, { beforeToolCall: gate })).toMatchObject({
        kind: 'ended',
        end: { status: 'completed' },
      });
      expect(gate).toHaveBeenCalledTimes(1);
      expect(f.journal).toContain(line);
      expect(f.tools.invocations).toHaveLength(executions);
    });

    it('abort ends the run', async () => {
      const f = await waiting();
      f.ledger.decide(f.ids[0] ?? '', 'approved');
      f.policies.version = 'v2';
      const result = await f.run(undefined, { beforeToolCall: () => ({ kind: 'abort', reason: 'no' }) });
      expect(result).toMatchObject({ kind: 'ended', end: { stopReason: 'aborted_by_hook' } });
      expect(f.tools.invocations).toEqual([]);
    });

    it('changed arguments want a new approval, and that one stands', async () => {
      const f = await waiting();
      f.ledger.decide(f.ids[0] ?? '', 'approved');
      f.policies.version = 'v2';
      const hooks: Hooks = { beforeToolCall: () => ({ kind: 'proceed', arguments: { a: 9 } }) };
      const again = callsOf(await f.run(undefined, hooks));
      expect(again.map((asking) => [asking.call.arguments, asking.gated.gateVersion])).toEqual([[{ a: 9 }, 'v2']]);
      expect(f.tools.invocations).toEqual([]);
      f.ledger.wait(again);
      f.ledger.decide(f.ids[0] ?? '', 'approved');
      await f.run(undefined, hooks);
      expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual([{ a: 9 }]);
    });
  });

  it('says in the audit that an approval stands under other policies', async () => {
    const f = await waiting({ beforeToolCall: () => ({ kind: 'proceed' }) });
    f.ledger.decide(f.ids[0] ?? '', 'approved');
    f.policies.version = 'v2';
    await f.run();
    expect(f.ledger.records).toMatchObject([{ hook: 'host', reason: expect.stringContaining('revalidated') }]);
  });

  it('a runner that dies between a voided approval and the new one leaves nothing approved', async () => {
    const f = turnOf([call('danger', { a: 1 })], { tools: [danger] });
    f.ledger.wait(callsOf(await f.run()));
    const id = f.ledger.calls[0]?.id ?? '';
    f.ledger.decide(id, 'approved');
    f.policies.version = 'v2';
    const hooks: Hooks = { beforeToolCall: () => ({ kind: 'proceed', arguments: { a: 9 } }) };
    // Stored by the loop, and the runner is gone before it has parked the run.
    callsOf(await f.run(undefined, hooks));
    expect(f.ledger.calls[0]?.state).toBe('awaiting_approval');
    const again = callsOf(await f.run(undefined, hooks));
    expect(f.tools.invocations).toEqual([]);
    f.ledger.wait(again);
    f.ledger.decide(id, 'approved');
    await f.run(undefined, hooks);
    expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual([{ a: 9 }]);
  });

  describe('arguments edited by the approver', () => {
    const edited = async (hooks: Hooks, tool: TestTool = danger) => {
      const f = turnOf([call('danger', { a: 1 })], { tools: [tool], hooks });
      f.ledger.wait(callsOf(await f.run()));
      const id = f.ledger.calls[0]?.id ?? '';
      const digest = f.ledger.calls[0]?.gated?.digest.replace('{"a":1}', '{"a":2}') ?? '';
      f.ledger.approveEdited(id, { a: 2 }, digest);
      return { ...f, id };
    };

    it.each<[string, ToolCallDecision, number]>([
      ['proceeds', { kind: 'proceed' }, 1],
      ['asks: it is answered by this approver', because('p'), 1],
      ['blocks', { kind: 'block', reason: 'no' }, 0],
      ['skips', { kind: 'skip', result: 1 }, 0],
    ])('pass the gate once more, which %s', async (_, decision, executions) => {
      const f = await edited({ beforeToolCall: () => ({ kind: 'proceed' }) });
      const gate = jest.fn((_: { call: { arguments: unknown } }) => decision);
      expect(await f.run(undefined, { beforeToolCall: gate })).toMatchObject({ kind: 'ended' });
      expect(gate.mock.calls.map(([event]) => event.call.arguments)).toEqual([{ a: 2 }]);
      expect(f.tools.invocations.map((invocation) => invocation.arguments)).toEqual(executions === 0 ? [] : [{ a: 2 }]);
    });

    it('are told to the model with the result, and its own call stays as it was', async () => {
      const f = await edited({});
      await f.run();
      const note = expect.stringContaining('{"a":2}');
      expect(f.told()).toEqual([{ note, output: 'ok' }]);
      const said = f.model.requests.at(-1)?.messages.find(({ role }) => role === 'assistant');
      expect(said?.toolCalls).toMatchObject([{ arguments: { a: 1 } }]);
      expect(f.ledger.messages.at(-2)?.content).toEqual({ callId: f.id, output: { note, output: 'ok' } });
    });

    it('are told with a block too', async () => {
      const f = await edited({ beforeToolCall: () => ({ kind: 'proceed' }) });
      await f.run(undefined, { beforeToolCall: () => ({ kind: 'block', reason: 'no' }) });
      expect(f.told()).toEqual([{ note: expect.stringContaining('{"a":2}'), output: 'Blocked: no' }]);
    });

    it('and changed by it, want a new approval', async () => {
      const f = await edited({});
      const hooks: Hooks = { beforeToolCall: () => ({ kind: 'proceed', arguments: { a: 3 } }) };
      expect(callsOf(await f.run(undefined, hooks))[0]?.call.arguments).toEqual({ a: 3 });
      expect(f.tools.invocations).toEqual([]);
    });

    it('go back to the gate and to a person when the tool is another by now', async () => {
      const f = await edited({});
      f.tools.replace([{ ...danger, schemaDigest: 'new' }]);
      expect(callsOf(await f.run())[0]?.call.arguments).toEqual({ a: 2 });
    });
  });

  describe('a grant of a wider scope', () => {
    const grants = [{ tool: 'danger', schemaDigest: 'schema of danger' }];
    const granted = (hooks: Hooks = {}, tool: TestTool = danger) =>
      turnOf([call('danger', { a: 5 })], { tools: [tool], hooks, snapshot: { grants } });

    it('satisfies the requirement of the tool, whatever the arguments', async () => {
      const f = granted();
      expect(await f.run()).toMatchObject({ kind: 'ended' });
      expect(f.tools.invocations).toHaveLength(1);
    });

    it('never a hook’s ask, which is the only reason then', async () => {
      const asking = callsOf(await granted({ beforeToolCall: () => because('p') }).run());
      expect(asking[0]?.reasons.map(({ by }) => by)).toEqual(['p']);
    });

    it.each<[string, TestTool]>([
      ['of another schema', { ...danger, schemaDigest: 'another' }],
      ['of another name', { ...danger, name: 'other', schemaDigest: 'schema of danger' }],
    ])('covers no tool %s', async (_, tool) => {
      const f = turnOf([call(tool.name)], { tools: [tool], snapshot: { grants } });
      expect(callsOf(await f.run())).toHaveLength(1);
    });
  });

  it('an expired approval is a denial by nobody', async () => {
    const f = await waiting();
    f.ledger.decide(f.ids[0] ?? '', 'denied', 'Nobody decided in time.');
    f.ledger.tamper(f.ids[0] ?? '', { settledBy: 'host' });
    await f.run();
    expect(f.told()).toEqual(['Denied: Nobody decided in time.']);
    expect(f.journal).toContain('callSettled danger denied host by host');
  });

  it('another schema voids the approval: back to the gate, and to a person', async () => {
    const gate = jest.fn((): ToolCallDecision => ({ kind: 'proceed' }));
    const f = await waiting({ beforeToolCall: gate });
    f.ledger.decide(f.ids[0] ?? '', 'approved');
    f.tools.replace([ping, { ...danger, schemaDigest: 'new' }]);
    const again = callsOf(await f.run());
    expect(again[0]?.gated.digest).toContain('new');
    expect(gate).toHaveBeenCalledTimes(2);
    expect(f.tools.invocations).toEqual([]);
  });

  it('a tool that is gone fails the approved call', async () => {
    const f = await waiting();
    f.ledger.decide(f.ids[0] ?? '', 'approved');
    f.tools.replace([ping]);
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.told()).toEqual([expect.stringContaining('There is no tool "danger"')]);
  });
});

describe('dispatch, whatever hooks decide', () => {
  const decisions = fc.oneof(
    { weight: 3, arbitrary: fc.constant({ kind: 'proceed' } as ToolCallDecision) },
    { weight: 2, arbitrary: fc.nat(9).map((n): ToolCallDecision => ({ kind: 'proceed', arguments: { n } })) },
    { weight: 2, arbitrary: fc.nat(9).map((n): ToolCallDecision => ({ ...because('p'), arguments: { n } })) },
    fc.constant<ToolCallDecision>(because('p')),
    fc.constant<ToolCallDecision>({ kind: 'block', reason: 'no' }),
    fc.constant<ToolCallDecision>({ kind: 'skip', result: 1 }),
    fc.constant<ToolCallDecision>({ kind: 'abort', reason: 'no' }),
    fc.constant({ kind: 'could_not_ask', code: 'gate_timeout', reason: 'late' } as unknown as ToolCallDecision),
  );
  const effects = fc.constantFrom('pure', 'idempotent', 'effectful' as const);
  const plan = fc.array(
    fc.record({ decision: decisions, approve: fc.boolean(), effect: effects, asks: fc.boolean(), fails: fc.boolean() }),
    { minLength: 1, maxLength: 5 },
  );

  it('executes nothing that is blocked, skipped, denied or unasked; executes gated arguments only; gates before it executes; gives every call one result', async () => {
    await fc.assert(
      fc.asyncProperty(plan, fc.integer({ min: 1, max: 3 }), async (steps, maxParallelTools) => {
        const tools = steps.map(
          ({ effect, asks, fails }, index): TestTool => ({
            name: `tool${index}`,
            effect,
            requiresApproval: asks,
            run: () =>
              fails
                ? { kind: 'result', result: { success: false, output: null, error: 'x' }, source: 'tool' }
                : done(index),
          }),
        );
        const gate: GateHook<'beforeToolCall'> = async ({ call: { name } }) => {
          f.journal.push(`gate ${name}`);
          await Promise.resolve();
          return steps[Number(name.slice(4))]?.decision ?? { kind: 'proceed' };
        };
        const f = loopFixture({
          script: [say('', ...steps.map((_, index) => call(`tool${index}`, { given: index }))), say('end')],
          tools,
          hooks: { beforeToolCall: gate },
          config: { limits: { ...firstSnapshot().config.limits, maxParallelTools } },
        });
        let result = await f.run();
        const asked = new Set<string>();
        if (result.kind === 'waiting_approval') {
          expect(f.tools.invocations).toEqual([]);
          f.ledger.wait(result.calls);
          for (const {
            call: { id, name },
          } of result.calls) {
            asked.add(name);
            f.ledger.decide(id, steps[Number(name.slice(4))]?.approve ? 'approved' : 'denied');
          }
          result = await f.run();
        }
        const aborts = steps.some(({ decision }) => decision.kind === 'abort');
        expect(result).toMatchObject({ kind: 'ended', end: { stopReason: aborts ? 'aborted_by_hook' : 'completed' } });
        const lastGate = f.journal.findLastIndex((line) => line.startsWith('gate '));
        const firstExecution = f.journal.findIndex((line) => line.startsWith('execute '));
        if (firstExecution >= 0) expect(firstExecution).toBeGreaterThan(lastGate);
        for (const [index, { decision, approve, effect, asks, fails }] of steps.entries()) {
          const executed = f.tools.invocations.filter(({ tool }) => tool.name === `tool${index}`);
          const passes = decision.kind === 'proceed' || decision.kind === 'ask';
          const wants = passes && (decision.kind === 'ask' || asks);
          if (!aborts) expect(asked.has(`tool${index}`)).toBe(wants);
          const expected = aborts || !passes || (wants && !approve) ? 0 : fails && effect !== 'effectful' ? 3 : 1;
          expect([index, executed.length]).toEqual([index, expected]);
          const args: JsonValue = ('arguments' in decision ? decision.arguments : undefined) ?? { given: index };
          expect(executed.map((invocation) => invocation.arguments)).toEqual(executed.map(() => args));
          expect(new Set(executed.map(({ idempotencyKey }) => idempotencyKey)).size).toBeLessThanOrEqual(1);
        }
        if (!aborts) {
          const results = f.ledger.messages.flatMap(({ content }) => ('callId' in content ? [content.callId] : []));
          expect(results).toHaveLength(steps.length);
          expect(new Set(results).size).toBe(steps.length);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('runs at most so many executions at a time', async () => {
    let open = 0;
    let most = 0;
    const run = async () => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
      return done();
    };
    const limits = { ...firstSnapshot().config.limits, maxParallelTools: 2 };
    const f = turnOf(
      [1, 2, 3, 4, 5].map(() => call('slow')),
      { tools: [{ name: 'slow', run }], config: { limits } },
    );
    await f.run();
    expect([most, f.tools.invocations.length]).toEqual([2, 5]);
  });
});

describe('states on resume', () => {
  it.each<[ToolCallState]>([['succeeded'], ['failed'], ['blocked'], ['skipped'], ['unknown'], ['cancelled']])(
    'a call that is %s is left as it is',
    async (state) => {
      const f = turnOf([call('ping'), call('wait')], { tools: [ping, { name: 'wait', requiresApproval: true }] });
      const calls = callsOf(await f.run());
      f.ledger.wait(calls);
      f.ledger.decide(calls[0]?.call.id ?? '', 'denied');
      const other = f.ledger.calls.find(({ name }) => name === 'ping')?.id ?? '';
      f.ledger.tamper(other, { state, result: { success: true, output: 'stored' } });
      await f.run();
      expect(f.tools.invocations).toEqual([]);
      expect(f.told()).toContain('stored');
    },
  );
});
