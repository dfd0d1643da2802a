import fc from 'fast-check';
import { chain } from './chain.js';
import type { GateEvent, Hooks } from './gates.js';
import { notify } from './notify.js';
import { testCall } from './testing/gate-call.js';
import { settle } from './testing/virtual-clock.js';

const FIELDS = ['beforeInput', 'onLoop', 'onTurnStart', 'onRunEnd'] as const;

/** Hooks that write down what they are asked. */
const tracing = (name: string, fields: readonly string[], seen: string[]): Hooks => ({
  ...(fields.includes('beforeInput') && {
    beforeInput: ({ content }: GateEvent<'beforeInput'>) => {
      seen.push(`${name}:beforeInput:${content}`);
      return { kind: 'transform' as const, content: `${content}${name}` };
    },
  }),
  ...(fields.includes('onLoop') && {
    onLoop: () => {
      seen.push(`${name}:onLoop`);
      return { kind: 'continue' as const };
    },
  }),
  ...(fields.includes('onTurnStart') && { onTurnStart: () => void seen.push(`${name}:onTurnStart`) }),
  ...(fields.includes('onRunEnd') && { onRunEnd: () => void seen.push(`${name}:onRunEnd`) }),
});

const play = async (hooks: Hooks, seen: string[]) => {
  const { call } = testCall();
  const decision = await hooks.beforeInput?.({ content: '' }, call);
  const state = { runId: 'r', sessionId: 's', iteration: 2, messages: [], usage: { inputTokens: 0, outputTokens: 0 } };
  await hooks.onLoop?.(state, call);
  const turn = { runId: 'r', sessionId: 's', turnId: 't', iteration: 1, resumed: false };
  hooks.onTurnStart?.(turn, call);
  hooks.onRunEnd?.({ runId: 'r', sessionId: 's', status: 'completed', stopReason: 'completed', metadata: {} }, call);
  return { decision, seen: [...seen] };
};

describe('chain', () => {
  const fields = fc.subarray([...FIELDS]);

  it('has {} as its identity, hook by hook', () => {
    fc.assert(
      fc.property(fields, (present) => {
        const hooks = tracing('x', present, []);
        expect(chain({}, hooks)).toEqual(hooks);
        expect(chain(hooks, {})).toEqual(hooks);
      }),
    );
    expect(chain({}, {})).toEqual({});
  });

  it('is associative and keeps the order', async () => {
    await fc.assert(
      fc.asyncProperty(fields, fields, fields, async (a, b, c) => {
        const played = async (join: (x: Hooks, y: Hooks, z: Hooks) => Hooks) => {
          const seen: string[] = [];
          return play(join(tracing('a', a, seen), tracing('b', b, seen), tracing('c', c, seen)), seen);
        };
        const left = await played((x, y, z) => chain(chain(x, y), z));
        const right = await played((x, y, z) => chain(x, chain(y, z)));
        expect(left).toEqual(right);
        for (const gate of ['onLoop', 'onTurnStart', 'onRunEnd']) {
          const order = left.seen.filter((line) => line.endsWith(`:${gate}`));
          expect(order).toEqual([...order].sort());
        }
      }),
    );
  });

  it('keeps a field absent that neither has', () => {
    const joined = chain({ onTurnEnd: () => undefined }, { beforeInput: () => ({ kind: 'continue' }) });
    expect(Object.keys(joined).sort()).toEqual(['beforeInput', 'onTurnEnd']);
  });
});

describe('notifications', () => {
  const event = { runId: 'r', sessionId: 's' };

  it('start all hooks in order, whatever one throws or rejects with', async () => {
    const seen: number[] = [];
    const joined = [
      () => {
        seen.push(1);
        throw new Error('boom');
      },
      async () => {
        seen.push(2);
        throw new Error('boom');
      },
      () => void seen.push(3),
    ].reduce<Hooks>((hooks, onRunStart) => chain(hooks, { onRunStart }), {});
    notify(joined.onRunStart, event, () => testCall().call);
    await settle();
    expect(seen).toEqual([1, 2, 3]);
  });

  it('never open a gate without a hook, and give a read-only scratchpad with one', () => {
    const open = jest.fn(() => inner.call);
    const inner = testCall();
    notify<'onRunStart'>(undefined, event, open);
    expect(open).not.toHaveBeenCalled();
    notify<'onRunStart'>((_, call) => call.merge({ set: { a: 1 }, deleted: [] }), event, open);
    expect(inner.patches).toEqual([]);
  });

  it('do not wait', () => {
    let started = false;
    notify<'onRunStart'>(
      () => {
        started = true;
        return new Promise(() => undefined);
      },
      event,
      () => testCall().call,
    );
    expect(started).toBe(true);
  });
});
