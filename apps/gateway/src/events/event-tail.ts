import type { LedgerEvent, SessionPush } from '@codedock/domain';

/** Where the tail's events go. */
export interface TailSink {
  /** Takes one event. */
  write(event: LedgerEvent): void;
  /** Resolves when the reader has taken enough of what was written; what is read for it is passed on no sooner. */
  drained(): Promise<void>;
  /** The tail is over: `end` after its last event, otherwise what went wrong. */
  finish(reason: 'end' | { readonly error: unknown }): void;
}

export interface TailOptions {
  /** Reads stored events after a seq, ascending, at most `pageSize`. */
  readonly read: (after: number, limit: number) => Promise<readonly LedgerEvent[]>;
  readonly pageSize: number;
  /** Which of the session's events belong to this tail. */
  readonly includes: (event: LedgerEvent) => boolean;
  /** True for the event after which the tail ends. */
  readonly isLast: (event: LedgerEvent) => boolean;
  /** Seq after which the tail starts. */
  readonly after: number;
  readonly sink: TailSink;
}

/**
 * Joins what is stored with what is pushed: every included event after the start exactly once, in order. Pushes that
 * continue the position are passed on as they come; anything else (a gap, a push without events, a doubled push) only
 * raises the known seq, and the database is read up to it. Events of a session commit in the order of their seq, so a
 * read begun after a seq was known sees everything up to it.
 */
export class EventTail {
  private cursor: number;
  private known: number;
  private reading: Promise<void> | undefined;
  private over = false;

  constructor(private readonly options: TailOptions) {
    this.cursor = options.after;
    this.known = options.after;
  }

  /** Seq up to which everything was written. */
  get position(): number {
    return this.cursor;
  }

  /** Something is committed. Never throws. */
  push(push: SessionPush): void {
    if (this.over || push.lastSeq <= this.cursor) return;
    this.known = Math.max(this.known, push.lastSeq);
    const events = push.events;
    const first = events?.[0];
    if (this.reading === undefined && events !== undefined && first !== undefined && first.seq <= this.cursor + 1) {
      for (const event of events) this.pass(event);
      this.advance(push.lastSeq);
    } else {
      void this.catchUp(false);
    }
  }

  /** Reads what is stored, whatever is known; call once after subscribing. Resolves when the tail is live. */
  replay(): Promise<void> {
    return this.catchUp(true);
  }

  /** Ends the tail without a word to the sink. */
  stop(): void {
    this.over = true;
  }

  private catchUp(unconditionally: boolean): Promise<void> {
    this.reading ??= this.readOn(unconditionally).finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async readOn(unconditionally: boolean): Promise<void> {
    try {
      let more = unconditionally;
      while (!this.over && (more || this.known > this.cursor)) more = await this.readPage();
    } catch (error) {
      this.finish({ error });
    }
  }

  /** True when the page was full, so that more may be stored. */
  private async readPage(): Promise<boolean> {
    const { pageSize, sink } = this.options;
    const known = this.known;
    const events = await this.options.read(this.cursor, pageSize);
    if (this.over) return false;
    // One by one: a page of large events is more than a reader may leave unread.
    for (const event of events) {
      this.pass(event);
      if (this.over) return false;
      await sink.drained();
    }
    if (this.over) return false;
    const full = events.length >= pageSize;
    // A short page has shown everything that was known before it was read, including what this tail leaves out.
    this.advance(full ? (events.at(-1)?.seq ?? this.cursor) : Math.max(known, events.at(-1)?.seq ?? 0));
    return full;
  }

  private pass(event: LedgerEvent): void {
    if (this.over || event.seq <= this.cursor) return;
    this.cursor = event.seq;
    if (!this.options.includes(event)) return;
    this.options.sink.write(event);
    if (this.options.isLast(event)) this.finish('end');
  }

  private advance(seq: number): void {
    this.cursor = Math.max(this.cursor, seq);
  }

  private finish(reason: 'end' | { readonly error: unknown }): void {
    if (this.over) return;
    this.over = true;
    this.options.sink.finish(reason);
  }
}
