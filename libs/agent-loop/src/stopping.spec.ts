import { AppError, type ModelChunk, RunStopped, type StopKind } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { loopFixture } from './testing/loop-fixture.js';
import { done } from './testing/memory-tools.js';
import { call, say } from './testing/scripted-model.js';

const never = () => new Promise<never>(() => undefined);
const silent = (): AsyncIterable<ModelChunk> => ({ [Symbol.asyncIterator]: () => ({ next: never, return: never }) });
const soon = () => new Promise((resolve) => setImmediate(resolve));
const tool = { name: 'tool', effect: 'pure' } as const;
const script = [say('', call('tool')), say('end')];

/** Every place where something deaf to its signal can hold a run. */
const places: Record<string, () => Parameters<typeof loopFixture>[0]> = {
  'the model': () => ({ script: [silent] }),
  'a tool': () => ({ script, tools: [{ ...tool, run: never }] }),
  beforeRunStart: () => ({ hooks: { beforeRunStart: never } }),
  transformContext: () => ({ hooks: { transformContext: never } }),
  afterModelCall: () => ({ script, tools: [tool], hooks: { afterModelCall: never } }),
  beforeToolCall: () => ({ script, tools: [tool], hooks: { beforeToolCall: never } }),
  afterToolCall: () => ({ script, tools: [tool], hooks: { afterToolCall: never } }),
  onLoop: () => ({ script, tools: [tool], hooks: { onLoop: never } }),
  'the commit of an execution': () => ({
    script,
    tools: [tool],
    before: (name) => (name === 'executionStarted' ? never() : undefined),
  }),
  'the commit of the start': () => ({ hooks: { onRunStart: () => undefined }, before: never }),
  'the wait before a retry': () => ({
    script,
    tools: [{ ...tool, run: () => ({ kind: 'result', result: { success: false, output: 1 }, source: 'tool' }) }],
    ports: { clock: { now: () => 0, sleep: never } },
  }),
};

describe('a run whose signal aborts', () => {
  it.each(Object.keys(places))('returns at once while %s hangs, and appends nothing more', async (place) => {
    const f = loopFixture(places[place]?.());
    const controller = new AbortController();
    const result = f.run(controller.signal);
    const before = { lines: -1 };
    while (before.lines !== f.journal.length) {
      before.lines = f.journal.length;
      await soon();
    }
    controller.abort(new RunStopped('cancel'));
    const raced = await Promise.race([
      result.then(({ kind }) => kind),
      soon()
        .then(soon)
        .then(() => 'late'),
    ]);
    // The fixture waits for the ledger itself where a commit hangs; the loop must be out of it by then.
    if (!place.startsWith('the commit')) expect(raced).toBe('stopped');
    await soon();
    expect(f.journal).toHaveLength(before.lines);
  });

  it.each<[StopKind, object]>([
    ['cancel', { kind: 'stopped', by: 'cancel' }],
    ['timeout', { kind: 'stopped', by: 'timeout' }],
    ['lease_lost', { kind: 'stopped', by: 'lease_lost' }],
    ['drain', { kind: 'handed_back' }],
  ])('for %s: %j', async (kind, expected) => {
    const during = new AbortController();
    const f = loopFixture({ script: [silent] });
    const result = f.run(during.signal);
    await soon();
    during.abort(new RunStopped(kind));
    expect(await result).toMatchObject(expected);
    const g = loopFixture({ script });
    expect(await g.run(AbortSignal.abort(new RunStopped(kind)))).toMatchObject(expected);
    expect(g.journal).toEqual([]);
  });

  it('reaches model, tool and hooks through their signals', async () => {
    const seen: string[] = [];
    const hear = (name: string, signal: AbortSignal) => {
      signal.addEventListener('abort', () => seen.push(`${name} ${(signal.reason as RunStopped).kind}`));
      return never();
    };
    const hooks: Hooks = {
      beforeToolCall: ({ call: { name } }, { signal }) =>
        name === 'gated' ? hear('hook', signal) : { kind: 'proceed' },
    };
    for (const options of [
      {
        script: [
          (_: unknown, __: unknown, signal: AbortSignal) => {
            void hear('model', signal);
            return silent();
          },
        ],
      },
      { script, tools: [{ ...tool, run: (_: unknown, signal: AbortSignal) => hear('tool', signal) }] },
      { script: [say('', call('gated'))], tools: [{ name: 'gated' }], hooks },
    ]) {
      const controller = new AbortController();
      const result = loopFixture(options).run(controller.signal);
      await soon();
      controller.abort(new RunStopped('cancel'));
      await result;
    }
    expect(seen).toEqual(['model cancel', 'tool cancel', 'hook cancel']);
  });

  it('leaves no listener on it', async () => {
    const controller = new AbortController();
    const add = jest.spyOn(controller.signal, 'addEventListener');
    const remove = jest.spyOn(controller.signal, 'removeEventListener');
    await loopFixture({ script, tools: [tool] }).run(controller.signal);
    expect(add).toHaveBeenCalledTimes(1);
    expect(remove).toHaveBeenCalled();
  });
});

describe('a lost lease', () => {
  it.each(['lease_lost', 'run_ended'] as const)(
    'reported by a fact that nobody awaits (%s) stops a hanging model',
    async (code) => {
      const f = loopFixture({
        script: [silent],
        before: (name) => {
          if (name === 'assistantStarted') throw new AppError(code, 'gone');
        },
      });
      expect(await f.run()).toMatchObject({ kind: 'stopped', by: 'lease_lost' });
    },
  );

  it('starts no tool', async () => {
    const f = loopFixture({
      script,
      tools: [tool],
      before: (name) => {
        if (name === 'executionStarted') throw new AppError('lease_lost', 'gone');
      },
    });
    expect(await f.run()).toMatchObject({ kind: 'stopped', by: 'lease_lost' });
    expect(f.tools.invocations).toEqual([]);
  });

  it('is not mistaken for other failures of the database: those reject', async () => {
    const f = loopFixture({
      script: [silent],
      before: (name) => {
        if (name === 'turnStarted') throw new AppError('store_unavailable', 'The database cannot be reached.');
      },
    });
    await expect(f.run()).rejects.toThrow('cannot be reached');
  });
});

describe('a drain', () => {
  it('hands back between turns, and the next attempt goes on', async () => {
    const f = loopFixture({
      script,
      tools: [
        {
          ...tool,
          run: () => {
            f.policies.draining = true;
            return done();
          },
        },
      ],
    });
    expect(await f.run()).toEqual({ kind: 'handed_back' });
    expect(f.journal.at(-1)).toBe('turnCompleted 1');
    f.policies.draining = false;
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
    expect(f.model.requests).toHaveLength(2);
  });

  it('does not keep a finished run from ending', async () => {
    const f = loopFixture({
      script: [
        () =>
          (async function* () {
            f.policies.draining = true;
            yield { kind: 'completed' as const, reply: say('end') };
          })(),
      ],
    });
    expect(await f.run()).toMatchObject({ kind: 'ended', end: { status: 'completed' } });
  });
});
