/** Time, from outside the pure core. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms` milliseconds, or at once when the signal aborts (it never rejects). */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}
