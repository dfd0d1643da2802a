import { type Clock, isAppError } from '@codedock/domain';

/** How often a store that could not be asked is asked again, milliseconds. */
const ASK_EVERY_MS = 1_000;

/** What a watch looks at, and whom it tells. */
export interface StoreWatchOptions {
  /** Rejects while the store cannot be asked. */
  readonly ready: () => Promise<void>;
  readonly clock: Clock;
  /** The store can be asked no more, because of `error`; or again. */
  readonly onChange: (reachable: boolean, error?: unknown) => void;
}

/** Whether the store can be asked: not from a failure that says so, until it has answered again. */
export class StoreWatch {
  reachable = true;
  private readonly stop = new AbortController();

  constructor(private readonly options: StoreWatchOptions) {}

  /** True for a failure by which the store cannot be asked now; it is then asked again until it answers. */
  lostBy(error: unknown): boolean {
    if (!isAppError(error, 'store_unavailable')) return false;
    if (this.reachable && !this.stop.signal.aborted) {
      this.reachable = false;
      this.options.onChange(false, error);
      void this.keepAsking();
    }
    return true;
  }

  close(): void {
    this.stop.abort();
  }

  private async keepAsking(): Promise<void> {
    const { ready, clock, onChange } = this.options;
    let answered = false;
    while (!answered && !this.stop.signal.aborted) {
      await clock.sleep(ASK_EVERY_MS, this.stop.signal);
      answered = await ready().then(
        () => true,
        () => false,
      );
    }
    if (this.stop.signal.aborted) return;
    this.reachable = true;
    onChange(true);
  }
}
