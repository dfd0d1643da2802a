import type { CancelPush, SessionPush } from '@codedock/domain';
import type { BusMessage } from './wire.js';

type SessionListener = (push: SessionPush) => void;
type CancelListener = (push: CancelPush) => void;

/** The listeners of this process, and who is told what. A listener that throws harms no other. */
export class Audience {
  readonly #sessions = new Map<string, Set<SessionListener>>();
  readonly #cancels = new Set<CancelListener>();
  readonly #reconnections = new Set<() => void>();

  /** Sessions with at least one listener. */
  sessions(): string[] {
    return [...this.#sessions.keys()];
  }

  hasSession(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  addSession(sessionId: string, listener: SessionListener): () => void {
    const listeners = this.#sessions.get(sessionId) ?? new Set();
    this.#sessions.set(sessionId, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#sessions.get(sessionId) === listeners) this.#sessions.delete(sessionId);
    };
  }

  addCancel(listener: CancelListener): () => void {
    this.#cancels.add(listener);
    return () => void this.#cancels.delete(listener);
  }

  addReconnection(listener: () => void): () => void {
    this.#reconnections.add(listener);
    return () => void this.#reconnections.delete(listener);
  }

  tell(message: BusMessage | undefined): void {
    if (message === undefined) return;
    if ('cancel' in message) {
      for (const listener of [...this.#cancels]) attempt(() => listener(message.cancel));
      return;
    }
    for (const listener of [...(this.#sessions.get(message.session.sessionId) ?? [])])
      attempt(() => listener(message.session));
  }

  tellReconnected(): void {
    for (const listener of [...this.#reconnections]) attempt(listener);
  }
}

function attempt(call: () => void): void {
  try {
    call();
  } catch {
    // The bus may lose anything; a reader that broke reads the database.
  }
}
