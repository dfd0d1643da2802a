import type { SessionPush } from '@codedock/domain';
import { asError } from '../queue-reporter.js';
import { within } from '../within.js';

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

const SEND_TIMEOUT_MS = 5_000;

export interface PushCoalescerOptions {
  /** Told of the first send in a row that failed or took too long; its batch is dropped, for readers have the database. */
  readonly onError?: (error: Error) => void;
  /** Longest time of one send, milliseconds; default 5,000. A network that is gone must not hold later pushes back. */
  readonly timeoutMs?: number;
}

/**
 * Holds pushes back while a send is under way and merges them per session: the busier the bus, the fewer messages.
 * The first push of a quiet moment goes out at once.
 */
export class PushCoalescer {
  readonly #send: (pushes: readonly SessionPush[]) => Promise<void>;
  readonly #onError: (error: Error) => void;
  readonly #timeoutMs: number;
  readonly #pending = new Map<string, SessionPush>();
  #sending: Promise<void> | undefined;
  #failing = false;

  constructor(
    send: (pushes: readonly SessionPush[]) => Promise<void>,
    { onError = () => undefined, timeoutMs = SEND_TIMEOUT_MS }: PushCoalescerOptions = {},
  ) {
    this.#send = send;
    this.#onError = onError;
    this.#timeoutMs = timeoutMs;
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
      await this.#sendOne(batch);
    }
    this.#sending = undefined;
  }

  async #sendOne(batch: readonly SessionPush[]): Promise<void> {
    const expired = () => new Error(`live events were not sent within ${this.#timeoutMs} ms`);
    try {
      await within(this.#send(batch), this.#timeoutMs, expired);
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) this.#onError(asError(error));
      this.#failing = true;
    }
  }
}
