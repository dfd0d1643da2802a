import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '@codedock/domain';
import type { Store } from './contract.js';

/** How often the database is asked anew, milliseconds: what this machine's oscillator drifts meanwhile is nothing. */
const ASK_EVERY_MS = 30_000;

/** The database's clock, read without asking it. */
export interface DatabaseClock {
  /** Milliseconds since the epoch. No change of this machine's own clock moves it. */
  now(): number;
  close(): void;
}

/**
 * Asks the database for its time now and every 30 s, and carries the answer on by the monotonic clock in between: all
 * services of an installation then have one time for what expires, whatever their machines' clocks say. An answer that
 * fails to come leaves the last one standing. Rejects when the first cannot be had.
 */
export async function openDatabaseClock(
  { now: ask }: Pick<Store, 'now'>,
  { everyMs = ASK_EVERY_MS }: { readonly everyMs?: number } = {},
): Promise<DatabaseClock> {
  /** Database time less monotonic time, and how far off it may be. */
  const measured = async () => {
    const before = performance.now();
    const theirs = await ask();
    const took = performance.now() - before;
    return { offset: theirs - (before + took / 2), error: took / 2 };
  };
  let { offset } = await measured();
  const again = async () => {
    const next = await measured();
    // Within what the asking took, the two say the same; time is not to tremble.
    if (Math.abs(next.offset - offset) > next.error) offset = next.offset;
  };
  const timer = setInterval(() => void again().catch(() => undefined), everyMs).unref();
  return {
    now: () => Math.round(performance.now() + offset),
    close: () => clearInterval(timer),
  };
}

/** The database's clock, with sleeps of this process; `keepsAlive` says whether one of them keeps it from ending. */
export const clockOf = (
  { now }: Pick<DatabaseClock, 'now'>,
  { keepsAlive }: { readonly keepsAlive: boolean },
): Clock => ({
  now,
  // Rejects when the signal aborts, and then only.
  sleep: (ms, signal) => sleep(ms, undefined, { signal, ref: keepsAlive }).catch(() => undefined),
});
