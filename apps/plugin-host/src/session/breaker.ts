/** Time-outs in a row that open a breaker. */
export const timeoutsToOpen = 5;

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/**
 * Keeps calls from a plugin that has stopped answering: five time-outs in a row close the way for a pause, then one
 * call tries; an answer opens the way again, another time-out doubles the pause up to 30 s.
 */
export class Breaker {
  private timeoutsInRow = 0;
  private closedUntil = 0;
  private pauseMs = firstPauseMs;
  private trying = false;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Undefined when a call may go; otherwise why not. A call that may go reports its end with one of the methods below. */
  refusal(): string | undefined {
    if (this.timeoutsInRow < timeoutsToOpen) return undefined;
    const left = this.closedUntil - this.now();
    if (left <= 0 && !this.trying) {
      this.trying = true;
      return undefined;
    }
    return `not asked after ${this.timeoutsInRow} time-outs in a row; next try in ${Math.max(left, 0)} ms`;
  }

  /** The plugin gave some answer. */
  answered(): void {
    this.timeoutsInRow = 0;
    this.trying = false;
    this.pauseMs = firstPauseMs;
  }

  /** The plugin let its time pass. */
  timedOut(): void {
    this.timeoutsInRow++;
    if (this.timeoutsInRow < timeoutsToOpen) return;
    if (this.trying) this.pauseMs = Math.min(this.pauseMs * 2, longestPauseMs);
    this.trying = false;
    this.closedUntil = this.now() + this.pauseMs;
  }

  /** The call ended without telling anything about the plugin. */
  inconclusive(): void {
    this.trying = false;
  }
}
