import { AppError } from '@codedock/domain';

/** How often the database is asked while runs come in, milliseconds. */
const LOOK_MS = 1_000;
const RETRY_AFTER_MS = 5_000;

export interface QueuePressureOptions {
  /** Queued runs of the installation above which no further one is taken. */
  readonly max: number;
  readonly queued: () => Promise<number>;
  readonly onError: (error: unknown) => void;
}

/**
 * Refuses runs while the installation's queue is full. The count is looked up beside the requests, once a second and only
 * while some come in, and what this gateway has let in since is added: no request waits for it, and a bound may be passed
 * by what other gateways take within that second.
 */
export class QueuePressure {
  private known = 0;
  private since = 0;
  private timer: NodeJS.Timeout | undefined;
  private looking: Promise<void> = Promise.resolve();

  constructor(private readonly options: QueuePressureOptions) {}

  /** @throws AppError `rate_limited` when the queue is full. */
  check(): void {
    if (this.known + this.since >= this.options.max) {
      // That there is room again must be found out too.
      this.lookSoon();
      throw new AppError(
        'rate_limited',
        `As many runs are queued as may be (${this.options.max}); send this again when some have ended.`,
        { retryAfterMs: RETRY_AFTER_MS },
      );
    }
  }

  /** Tells of a run that this gateway has just put into the queue. */
  took(): void {
    this.since += 1;
    this.lookSoon();
  }

  /** Resolves when the database is asked no more. */
  async close(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    await this.looking;
  }

  private lookSoon(): void {
    this.timer ??= setTimeout(() => {
      this.looking = this.look();
    }, LOOK_MS).unref();
  }

  private async look(): Promise<void> {
    try {
      const before = this.since;
      this.known = await this.options.queued();
      // What came in while the database counted may be in its count or not.
      this.since -= before;
    } catch (error) {
      this.options.onError(error);
    } finally {
      this.timer = undefined;
    }
  }
}
