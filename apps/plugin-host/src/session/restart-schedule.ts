import type { RestartSettings } from '../discovery/manifest-file.js';

const startsPerMinute = 5;
const minuteMs = 60_000;

/** When a plugin that ended may be started again: after a pause that doubles, at most five starts a minute. */
export class RestartSchedule {
  private failuresInRow = 0;
  private starts: number[] = [];

  constructor(
    public settings: RestartSettings,
    private readonly now: () => number = () => performance.now(),
  ) {}

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

  /** Whether it is started again at all after it ended; `quietly` = with exit code 0 while nothing was asked. */
  restarts(quietly: boolean): boolean {
    const { policy } = this.settings;
    return policy === 'always' || (policy === 'on-failure' && !quietly);
  }

  /** Milliseconds to wait before the next start. */
  delayMs(): number {
    const { backoffMs, maxBackoffMs } = this.settings;
    const backoff = Math.min(backoffMs * 2 ** Math.max(this.failuresInRow - 1, 0), maxBackoffMs);
    const [oldest = 0] = this.starts;
    const untilAllowed = this.starts.length < startsPerMinute ? 0 : oldest + minuteMs - this.now();
    return Math.max(backoff, untilAllowed);
  }
}
