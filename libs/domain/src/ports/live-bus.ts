import type { LedgerEvent } from '../ledger-event.js';

/** What travels on a session's live channel: the newest committed seq and, where small, the events themselves. */
export interface SessionPush {
  readonly sessionId: string;
  readonly lastSeq: number;
  /** Events up to `lastSeq`, ascending and complete from `lastSeq - events.length + 1`; absent when too large: read the database. */
  readonly events?: readonly LedgerEvent[];
}

/** A control message to whichever process holds the run. */
export interface CancelPush {
  readonly runId: string;
}

/** The live side of the ledger: at most once, unordered across sessions, may lose anything. */
export interface LiveBus {
  /** Fire and forget, after commit. Coalesced per session; never throws. */
  publish(push: SessionPush): void;
  publishCancel(push: CancelPush): void;
  /** Resolves when the subscription is active. The returned function ends it. */
  subscribe(sessionId: string, onPush: (push: SessionPush) => void): Promise<() => void>;
  subscribeCancels(onCancel: (push: CancelPush) => void): Promise<() => void>;
  /** Called after a lost connection is back: whatever was pushed meanwhile is gone, so readers read the database again. */
  onReconnected(listener: () => void): () => void;
  close(): Promise<void>;
}
