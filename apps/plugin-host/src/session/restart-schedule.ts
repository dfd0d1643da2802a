const firstDelayMs = 500;
const longestDelayMs = 30_000;
const startsPerMinute = 5;
const minuteMs = 60_000;

/** When a plugin that ended may be started again: 0.5 s doubling to 30 s, at most five starts a minute. */
export class RestartSchedule {
  private failuresInRow = 0;
  private starts: number[] = [];

  constructor(private readonly now: () => number = Date.now) {}

  /** A start happens now. */
  started(): void {
    this.starts = [...this.starts.slice(1 - startsPerMinute), this.now()];
  }

  /** A process ended that had been ready for the given time (0 = it never was). */
  ended(readyForMs: number): void {
    this.failuresInRow = readyForMs >= minuteMs ? 1 : this.failuresInRow + 1;
  }

  /** Forgets failures, after an administrator's act. */
  reset(): void {
    this.failuresInRow = 0;
    this.starts = [];
  }

  /** Milliseconds to wait before the next start. */
  delayMs(): number {
    const backoff = Math.min(firstDelayMs * 2 ** Math.max(this.failuresInRow - 1, 0), longestDelayMs);
    const [oldest = 0] = this.starts;
    const untilAllowed = this.starts.length < startsPerMinute ? 0 : oldest + minuteMs - this.now();
    return Math.max(backoff, untilAllowed);
  }
}
