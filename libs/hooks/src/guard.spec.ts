import { AppError } from '@codedock/domain';
import fc from 'fast-check';
import { isRemoteDecision } from './decision-shape.js';
import type { GateDecision, GateEvent, GateHook } from './gates.js';
import { guard } from './guard.js';
import { GATE_NAMES, policyOf, type RemoteGateName } from './policy.js';
import { testCall } from './testing/gate-call.js';
import { settle, VirtualClock } from './testing/virtual-clock.js';

const REMOTE = GATE_NAMES.filter((gate): gate is RemoteGateName => policyOf(gate).port !== undefined);
const BUDGET = 2000;
const EVENT = {
  content: 'a',
  systemPrompt: 's',
  hidden: [],
  messages: [],
  headers: {},
  body: '{}',
  call: { id: 'c', name: 'ping', arguments: {} },
  tool: { requiresApproval: false, effect: 'pure' },
  result: { success: true, output: 1 },
  n: 1,
} as unknown as GateEvent<RemoteGateName>;

type AnyHook = GateHook<RemoteGateName>;

/** Asks and lets the budget pass; the answer must be there by then. */
async function asked(gate: RemoteGateName, hook: unknown, failClosed = false, signal?: AbortSignal) {
  const clock = new VirtualClock();
  const { call, records, patches } = testCall(signal === undefined ? {} : { signal });
  const hooked = guard(gate, hook as AnyHook, { budgetMs: BUDGET, clock, failClosed: () => failClosed });
  let decision: GateDecision<RemoteGateName> | undefined;
  let answers = 0;
  void Promise.resolve(hooked(EVENT as never, call)).then((value) => {
    decision = value;
    answers += 1;
  });
  await clock.advance(BUDGET);
  return { decision, answers, records: [...records], patches, clock, live: { records, patches } };
}

const thenable = (act: (resolve: (value: unknown) => void, reject: (error: unknown) => void) => void) => ({
  // biome-ignore lint/suspicious/noThenProperty: a hostile hook may answer one.
  then: act,
});
const hostile = {
  get kind(): string {
    throw new Error('trap');
  },
};
const behaviours: Record<string, () => unknown> = {
  throws: () => {
    throw new Error('boom');
  },
  'throws nothing': () => {
    throw undefined;
  },
  'throws a trap': () => {
    throw hostile;
  },
  rejects: () => Promise.reject(new Error('boom')),
  'rejects with gate_timeout': () => Promise.reject(new AppError('gate_timeout', 'late')),
  hangs: () => new Promise(() => undefined),
  'answers undefined': () => undefined,
  'answers null': () => null,
  'answers text': () => 'continue',
  'answers a list': () => [],
  'answers without kind': () => ({}),
  'answers an unknown kind': () => ({ kind: 'sure' }),
  'answers an inherited kind': () => ({ kind: 'toString' }),
  'answers a trap': () => hostile,
  'answers a thenable that rejects': () => thenable((_, reject) => reject(1)),
  'answers a thenable that throws': () =>
    thenable(() => {
      throw new Error('boom');
    }),
  'answers a thenable that hangs': () => thenable(() => undefined),
};

const isFailure = (gate: RemoteGateName, failClosed: boolean, decision: unknown) =>
  policyOf(gate).remoteFailure === 'closed' || failClosed
    ? expect(decision).toMatchObject({ kind: 'could_not_ask', reason: expect.stringContaining('host') })
    : expect(decision).toEqual({ kind: 'reply' });

describe('guard', () => {
  describe.each(REMOTE)('%s', (gate) => {
    it.each(Object.keys(behaviours))('a hook that %s', async (name) => {
      for (const failClosed of [false, true]) {
        const { decision, answers, records, clock } = await asked(gate, behaviours[name], failClosed);
        expect(answers).toBe(1);
        isFailure(gate, failClosed, decision);
        expect(isRemoteDecision(gate, decision)).toBe(true);
        expect(records).toHaveLength(1);
        expect(records[0]).toMatchObject({ gate, port: policyOf(gate).port, hook: 'host' });
        expect(clock.waiting).toBe(0);
      }
    });

    it('a good answer in time comes out as it is and leaves no line', async () => {
      const kind = gate === 'beforeToolCall' ? 'proceed' : policyOf(gate).decisions[0];
      const { decision, records, clock } = await asked(gate, () => ({ kind }));
      expect(decision).toEqual({ kind });
      expect(records).toEqual([]);
      expect(clock.waiting).toBe(0);
    });

    it('a refusal to ask by the hook itself comes out as it is', async () => {
      const failure = { kind: 'could_not_ask', code: 'gate_unavailable', reason: 'crashed', by: 'redact' };
      expect((await asked(gate, () => failure)).decision).toEqual(failure);
    });
  });

  it.each([
    ['hangs', 'timeout', 'gate_timeout'],
    ['rejects with gate_timeout', 'not asked', 'gate_timeout'],
    ['rejects', 'unreachable', 'gate_unavailable'],
    ['answers an unknown kind', 'invalid', 'gate_unavailable'],
  ])('a hook that %s is recorded as %s and fails with %s', async (name, outcome, code) => {
    const { decision, records } = await asked('beforeToolCall', behaviours[name]);
    expect(records).toMatchObject([{ outcome }]);
    expect(decision).toMatchObject({ kind: 'could_not_ask', code });
  });

  it('refuses decisions that only in-process hooks may give, and fields of the wrong type', async () => {
    for (const [gate, answer] of [
      ['transformContext', { kind: 'stop', reason: 'enough' }],
      ['transformContext', { kind: 'reply', messages: [{ id: 1 }] }],
      ['beforeInput', { kind: 'transform', content: 7 }],
      ['beforeToolCall', { kind: 'block' }],
      ['beforeToolCall', { kind: 'ask', reasons: ['because'] }],
      ['beforeToolCall', { kind: 'handled' }],
      ['afterToolCall', { kind: 'reply', success: 'yes' }],
      ['beforeProviderRequest', { kind: 'reply', headers: { a: 1 } }],
    ] as const) {
      const { records } = await asked(gate, () => answer);
      expect([gate, records.map(({ outcome }) => outcome)]).toEqual([gate, ['invalid']]);
    }
  });

  it('drops what comes late: answer, records and patches', async () => {
    const clock = new VirtualClock();
    const { call, records, patches } = testCall();
    let aborted = false;
    const late: GateHook<'beforeToolCall'> = async (_, given) => {
      given.signal.addEventListener('abort', () => {
        aborted = true;
      });
      await clock.sleep(BUDGET + 1, new AbortController().signal);
      given.merge({ set: { late: true }, deleted: [] });
      given.record({
        gate: 'beforeToolCall',
        hook: 'late',
        outcome: 'blocked',
        startedMs: 0,
        durationMs: 0,
        queueMs: 0,
      });
      return { kind: 'block', reason: 'late' };
    };
    const answer = Promise.resolve(guard('beforeToolCall', late, { budgetMs: BUDGET, clock })(EVENT as never, call));
    await clock.advance(BUDGET);
    expect(await answer).toMatchObject({ kind: 'could_not_ask', code: 'gate_timeout' });
    expect(aborted).toBe(true);
    await clock.advance(BUDGET);
    expect(records.map(({ hook }) => hook)).toEqual(['host']);
    expect(patches).toEqual([]);
  });

  it('gives up at once when the caller does, before or during the question', async () => {
    const controller = new AbortController();
    const { call, records } = testCall({ signal: controller.signal });
    const clock = new VirtualClock();
    let asks = 0;
    const hanging: GateHook<'beforeToolCall'> = () => {
      asks += 1;
      return new Promise<never>(() => undefined);
    };
    const hooked = guard('beforeToolCall', hanging, { budgetMs: BUDGET, clock });
    const answer = Promise.resolve(hooked(EVENT as never, call));
    await settle();
    controller.abort();
    expect(await answer).toMatchObject({ kind: 'could_not_ask' });
    expect(await hooked(EVENT as never, call)).toMatchObject({ kind: 'could_not_ask' });
    expect([asks, clock.now(), clock.waiting, records]).toEqual([1, 0, 0, []]);
  });

  it('does not know better than its options: no budget and no answer about closing mean closed', async () => {
    const { call, records } = testCall();
    const unknown = () => {
      throw new Error('no snapshot');
    };
    const options = { budgetMs: unknown, clock: new VirtualClock(), failClosed: unknown };
    const hooked = guard('afterToolCall', () => ({ kind: 'reply' }), options);
    expect(await hooked(EVENT as never, call)).toMatchObject({ kind: 'could_not_ask', code: 'gate_unavailable' });
    expect(records).toMatchObject([{ outcome: 'not ready' }]);
  });

  it('is total: any value after any delay gives one decision of the right kind by the end of the budget', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...REMOTE),
        fc.oneof(
          fc.anything(),
          fc.record({ kind: fc.constantFrom('continue', 'reply', 'proceed', 'block', 'ask') }),
          fc.record({
            kind: fc.constantFrom('block', 'stop', 'skip', 'could_not_ask'),
            reason: fc.anything(),
            result: fc.anything(),
            code: fc.constantFrom('gate_timeout', 'x'),
          }),
        ),
        fc.integer({ min: 0, max: 2 * BUDGET }),
        fc.boolean(),
        fc.boolean(),
        async (gate, value, delay, rejects, failClosed) => {
          const clock = new VirtualClock();
          const { call } = testCall();
          const hook = async () => {
            await clock.sleep(delay, new AbortController().signal);
            if (rejects) throw value;
            return value;
          };
          const hooked = guard(gate, hook as unknown as AnyHook, {
            budgetMs: BUDGET,
            clock,
            failClosed: () => failClosed,
          });
          let decision: unknown;
          const answer = Promise.resolve(hooked(EVENT as never, call)).then((given) => {
            decision = given;
          });
          await clock.advance(BUDGET);
          expect(isRemoteDecision(gate, decision)).toBe(true);
          if (rejects || delay > BUDGET) isFailure(gate, failClosed, decision);
          await answer;
        },
      ),
    );
  });
});
