/** Time, from outside the pure core. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms` milliseconds, or at once when the signal aborts (it never rejects). */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** A clock that also calls back, for code that runs too often to pay for a signal and a promise per wait. */
export interface TimerClock extends Clock {
  /** Calls `run` once after `ms` milliseconds, unless the returned function is called before. */
  after(ms: number, run: () => void): () => void;
}
