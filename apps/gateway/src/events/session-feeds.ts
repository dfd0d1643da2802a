import type { LiveBus, SessionPush } from '@codedock/domain';

/** Reads the newest committed seq of many sessions in one query; sessions that do not exist (any more) are missing. */
export type ReadLastSeqs = (sessionIds: readonly string[]) => Promise<ReadonlyMap<string, number>>;

/** Someone who follows a session. */
export interface Follower {
  /** This seq is committed, and the events up to it are there where they are at hand. */
  told(push: SessionPush): void;
  /** The session was deleted; nothing follows. */
  gone(): void;
}

interface Feed {
  readonly followers: Set<Follower>;
  readonly subscribed: Promise<() => void>;
  lastSeq: number;
}

export interface SessionFeedsOptions {
  readonly bus: LiveBus;
  readonly readLastSeqs: ReadLastSeqs;
  /** Milliseconds between two looks at the database. A runner may die between commit and push. */
  readonly sweepMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * The live side of all streams of this process: one bus subscription per followed session, shared by its followers, and
 * one batched query for all of them every `sweepMs` and after a lost bus connection is back.
 */
export class SessionFeeds {
  private readonly feeds = new Map<string, Feed>();
  private readonly timer: NodeJS.Timeout;
  private readonly stopListening: () => void;
  private sweeping: Promise<void> | undefined;

  constructor(private readonly options: SessionFeedsOptions) {
    this.timer = setInterval(() => void this.sweep(), options.sweepMs);
    this.timer.unref();
    this.stopListening = options.bus.onReconnected(() => void this.sweep());
  }

  /** Sessions with at least one follower. */
  get size(): number {
    return this.feeds.size;
  }

  /**
   * Resolves once every later commit of the session reaches the follower, at the latest with the next sweep. When the bus
   * cannot subscribe, the sweep alone serves the session. The returned function ends it.
   */
  async follow(sessionId: string, follower: Follower): Promise<() => void> {
    const feed = this.feedOf(sessionId);
    feed.followers.add(follower);
    await feed.subscribed;
    return () => this.leave(sessionId, feed, follower);
  }

  /** Looks at the database once and tells the followers that are behind. */
  sweep(): Promise<void> {
    this.sweeping ??= this.look().finally(() => {
      this.sweeping = undefined;
    });
    return this.sweeping;
  }

  /** Ends the timer and all subscriptions; followers are told nothing more. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    this.stopListening();
    const feeds = [...this.feeds.values()];
    this.feeds.clear();
    for (const feed of feeds) (await feed.subscribed)();
  }

  private feedOf(sessionId: string): Feed {
    const known = this.feeds.get(sessionId);
    if (known !== undefined) return known;
    const feed: Feed = {
      followers: new Set(),
      lastSeq: 0,
      subscribed: this.options.bus
        .subscribe(sessionId, (push) => this.tell(feed, push))
        .catch((error: unknown) => {
          this.options.onError(error);
          return () => undefined;
        }),
    };
    this.feeds.set(sessionId, feed);
    return feed;
  }

  private leave(sessionId: string, feed: Feed, follower: Follower): void {
    feed.followers.delete(follower);
    if (feed.followers.size > 0 || this.feeds.get(sessionId) !== feed) return;
    this.feeds.delete(sessionId);
    void feed.subscribed.then((end) => end());
  }

  private async look(): Promise<void> {
    const sessionIds = [...this.feeds.keys()];
    if (sessionIds.length === 0) return;
    try {
      const lastSeqs = await this.options.readLastSeqs(sessionIds);
      for (const sessionId of sessionIds) {
        const feed = this.feeds.get(sessionId);
        const lastSeq = lastSeqs.get(sessionId);
        if (feed === undefined) continue;
        if (lastSeq === undefined) for (const follower of feed.followers) follower.gone();
        else if (lastSeq > feed.lastSeq) this.tell(feed, { sessionId, lastSeq });
      }
    } catch (error) {
      this.options.onError(error);
    }
  }

  private tell(feed: Feed, push: SessionPush): void {
    feed.lastSeq = Math.max(feed.lastSeq, push.lastSeq);
    for (const follower of feed.followers) follower.told(push);
  }
}
