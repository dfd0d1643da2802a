import type { SessionPush } from '@codedock/domain';

/** Two pushes of one session as one. Events survive only while they stay complete up to the newest seq. */
export function mergePushes(first: SessionPush, second: SessionPush): SessionPush {
  const [older, newer] = first.lastSeq <= second.lastSeq ? [first, second] : [second, first];
  const events = [...(older.events ?? []), ...(newer.events ?? [])];
  const expected = (older.events?.length ?? 0) + newer.lastSeq - older.lastSeq;
  const complete =
    newer.events !== undefined &&
    events.length === expected &&
    events.every((e, i) => e.seq === newer.lastSeq - expected + 1 + i);
  if (complete) return { sessionId: newer.sessionId, lastSeq: newer.lastSeq, events };
  return newer;
}

/**
 * Holds pushes back while a send is under way and merges them per session: the busier the bus, the fewer messages.
 * The first push of a quiet moment goes out at once.
 */
export class PushCoalescer {
  readonly #send: (pushes: readonly SessionPush[]) => Promise<void>;
  readonly #pending = new Map<string, SessionPush>();
  #sending: Promise<void> | undefined;

  /** `send` must settle; its rejection drops that batch, for readers find the events in the database. */
  constructor(send: (pushes: readonly SessionPush[]) => Promise<void>) {
    this.#send = send;
  }

  add(push: SessionPush): void {
    const waiting = this.#pending.get(push.sessionId);
    this.#pending.set(push.sessionId, waiting === undefined ? push : mergePushes(waiting, push));
    this.#sending ??= this.#drain();
  }

  /** Resolves when everything added so far has been sent or dropped. */
  async idle(): Promise<void> {
    await this.#sending;
  }

  async #drain(): Promise<void> {
    // One turn of the microtask queue lets pushes of the same commit meet.
    await Promise.resolve();
    while (this.#pending.size > 0) {
      const batch = [...this.#pending.values()];
      this.#pending.clear();
      await this.#send(batch).catch(() => undefined);
    }
    this.#sending = undefined;
  }
}
