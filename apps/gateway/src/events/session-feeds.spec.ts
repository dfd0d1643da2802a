import type { LiveBus, SessionPush } from '@codedock/domain';
import { SessionFeeds } from './session-feeds.js';

/** A live bus in memory whose pushes and reconnections the test makes. */
class TestBus implements LiveBus {
  readonly subscriptions = new Map<string, (push: SessionPush) => void>();
  subscribed = 0;
  failing = false;
  private reconnected: () => void = () => undefined;

  publish(push: SessionPush): void {
    this.subscriptions.get(push.sessionId)?.(push);
  }
  publishCancel(): void {}
  async subscribe(sessionId: string, onPush: (push: SessionPush) => void): Promise<() => void> {
    if (this.failing) throw new Error('the bus is gone');
    this.subscribed += 1;
    this.subscriptions.set(sessionId, onPush);
    return () => this.subscriptions.delete(sessionId);
  }
  async subscribeCancels(): Promise<() => void> {
    return () => undefined;
  }
  onReconnected(listener: () => void): () => void {
    this.reconnected = listener;
    return () => undefined;
  }
  async close(): Promise<void> {}
  reconnect(): void {
    this.reconnected();
  }
}

const follower = (told: (push: SessionPush) => void, gone: () => void = () => undefined) => ({ told, gone });

let bus: TestBus;
let feeds: SessionFeeds;
let stored: Map<string, number>;
let reads: (readonly string[])[];
let errors: unknown[];

beforeEach(() => {
  bus = new TestBus();
  stored = new Map();
  reads = [];
  errors = [];
  feeds = new SessionFeeds({
    bus,
    sweepMs: 60_000,
    onError: (error) => errors.push(error),
    readLastSeqs: async (sessionIds) => {
      reads.push(sessionIds);
      return stored;
    },
  });
});
afterEach(() => feeds.close());

describe('SessionFeeds', () => {
  it('subscribes once per session however many follow, and leaves with the last', async () => {
    const seen: number[][] = [[], []];
    const leave = await Promise.all(
      seen.map((list) =>
        feeds.follow(
          's',
          follower((push) => list.push(push.lastSeq)),
        ),
      ),
    );
    bus.publish({ sessionId: 's', lastSeq: 1 });
    expect(bus.subscribed).toBe(1);
    expect(seen).toEqual([[1], [1]]);
    leave[0]?.();
    bus.publish({ sessionId: 's', lastSeq: 2 });
    expect(seen).toEqual([[1], [1, 2]]);
    leave[1]?.();
    await Promise.resolve();
    expect(feeds.size).toBe(0);
    expect(bus.subscriptions.size).toBe(0);
  });

  it('asks the database once for all sessions, and tells those that are behind', async () => {
    const told: string[] = [];
    for (const id of ['a', 'b', 'c'])
      await feeds.follow(
        id,
        follower((push) => told.push(`${push.sessionId}${push.lastSeq}`)),
      );
    bus.publish({ sessionId: 'a', lastSeq: 5 });
    stored = new Map([
      ['a', 5],
      ['b', 3],
    ]);
    await feeds.sweep();
    expect(reads).toEqual([['a', 'b', 'c']]);
    expect(told).toEqual(['a5', 'b3']);
  });

  it('looks at once when the bus is back', async () => {
    const told: number[] = [];
    await feeds.follow(
      's',
      follower((push) => told.push(push.lastSeq)),
    );
    stored = new Map([['s', 9]]);
    bus.reconnect();
    await feeds.sweep();
    expect(told).toEqual([9]);
  });

  it('serves a session by the sweep alone when the bus cannot subscribe', async () => {
    bus.failing = true;
    const told: number[] = [];
    await feeds.follow(
      's',
      follower((push) => told.push(push.lastSeq)),
    );
    expect(errors).toHaveLength(1);
    stored = new Map([['s', 4]]);
    await feeds.sweep();
    expect(told).toEqual([4]);
  });

  it('tells followers of a session that does not exist any more, and nobody else', async () => {
    const gone: string[] = [];
    for (const id of ['a', 'b']) {
      await feeds.follow(
        id,
        follower(
          () => undefined,
          () => gone.push(id),
        ),
      );
    }
    stored = new Map([['a', 1]]);
    await feeds.sweep();
    expect(gone).toEqual(['b']);
  });

  it('asks nothing while nobody follows', async () => {
    await feeds.sweep();
    expect(reads).toEqual([]);
  });
});
