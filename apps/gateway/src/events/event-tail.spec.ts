import type { LedgerEvent, SessionPush } from '@codedock/domain';
import fc from 'fast-check';
import { EventTail } from './event-tail.js';

const sessionId = '00000000-0000-7000-8000-000000000001';

function stored(seq: number, runId = 'a'): LedgerEvent {
  const type = 'tool.approval_reminder' as const;
  const event = { eventId: `e${seq}`, sessionId, runId, seq, type, version: 1, occurredAt: '2026-01-01T00:00:00Z' };
  return { ...event, payload: { approvalId: 'x' } };
}

interface Step {
  readonly commits: number;
  readonly push: 'lost' | 'bare' | 'whole' | 'twice';
  readonly settle: boolean;
}

const step: fc.Arbitrary<Step> = fc.record({
  commits: fc.integer({ min: 1, max: 4 }),
  push: fc.constantFrom('lost', 'bare', 'whole', 'twice'),
  settle: fc.boolean(),
});

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

async function follow(
  steps: readonly Step[],
  after: number,
  runId?: string,
): Promise<{ seen: number[]; all: LedgerEvent[] }> {
  const all: LedgerEvent[] = [];
  const seen: number[] = [];
  const commit = (count: number): SessionPush => {
    const fresh = Array.from({ length: count }, (_, index) =>
      stored(all.length + index + 1, (all.length + index) % 3 === 0 ? 'b' : 'a'),
    );
    all.push(...fresh);
    return { sessionId, lastSeq: all.length, events: fresh };
  };
  const tail = new EventTail({
    after,
    pageSize: 3,
    includes: (event) => runId === undefined || event.runId === runId,
    isLast: () => false,
    read: async (from, limit) => {
      const page = all
        .filter((event) => event.seq > from && (runId === undefined || event.runId === runId))
        .slice(0, limit);
      await settled();
      return page;
    },
    sink: {
      write: (event) => seen.push(event.seq),
      drained: async () => settled(),
      finish: ({ error }: never) => expect(error).toBeUndefined(),
    },
  });
  let replay: Promise<void> | undefined;
  for (const [index, { commits, push, settle }] of steps.entries()) {
    if (index === 1) replay = tail.replay();
    const committed = commit(commits);
    if (push === 'bare') tail.push({ sessionId, lastSeq: committed.lastSeq });
    if (push === 'whole' || push === 'twice') tail.push(committed);
    if (push === 'twice') tail.push(committed);
    if (settle) await settled();
  }
  await (replay ?? tail.replay());
  tail.push({ sessionId, lastSeq: all.length });
  await tail.replay();
  return { seen, all };
}

describe('EventTail', () => {
  it('gives every event of the session after the start exactly once and in order, whatever pushes do', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 0, max: 5 }),
        async (steps, start) => {
          const { seen, all } = await follow(steps, start);
          expect(seen).toEqual(all.map((event) => event.seq).filter((seq) => seq > start));
        },
      ),
    );
  });

  it("gives exactly one run's events of a shared session", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        const { seen, all } = await follow(steps, 0, 'b');
        expect(seen).toEqual(all.filter((event) => event.runId === 'b').map((event) => event.seq));
      }),
    );
  });

  it('ends after the last event and writes nothing more', async () => {
    const seen: number[] = [];
    const finished: unknown[] = [];
    const tail = new EventTail({
      after: 0,
      pageSize: 10,
      includes: () => true,
      isLast: (event) => event.seq === 2,
      read: async () => [stored(1)],
      sink: {
        write: (event) => seen.push(event.seq),
        drained: async () => undefined,
        finish: (reason) => finished.push(reason),
      },
    });
    await tail.replay();
    tail.push({ sessionId, lastSeq: 3, events: [stored(2), stored(3)] });
    tail.push({ sessionId, lastSeq: 4, events: [stored(4)] });
    expect(seen).toEqual([1, 2]);
    expect(finished).toEqual(['end']);
  });

  it('waits for the reader within a page: large events would pile up', async () => {
    let unread = 0;
    let most = 0;
    const tail = new EventTail({
      after: 0,
      pageSize: 10,
      includes: () => true,
      isLast: () => false,
      read: async (after) => [1, 2, 3].filter((seq) => seq > after).map((seq) => stored(seq)),
      sink: {
        write: () => {
          unread += 1;
          most = Math.max(most, unread);
        },
        drained: async () => {
          unread = 0;
        },
        finish: () => undefined,
      },
    });
    await tail.replay();
    expect(tail.position).toBe(3);
    expect(most).toBe(1);
  });

  it('reports a database that cannot be read instead of waiting for ever', async () => {
    const finished: unknown[] = [];
    const error = new Error('gone');
    const tail = new EventTail({
      after: 0,
      pageSize: 10,
      includes: () => true,
      isLast: () => false,
      read: () => Promise.reject(error),
      sink: { write: () => undefined, drained: async () => undefined, finish: (reason) => finished.push(reason) },
    });
    await tail.replay();
    expect(finished).toEqual([{ error }]);
  });
});
