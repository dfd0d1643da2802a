import { RunStopped } from '@codedock/domain';
import type { Heartbeat } from '@codedock/store';

/** How long a lease lives without a sign of life, and how often one is given, milliseconds. */
export interface LeaseTimes {
  readonly ttlMs: number;
  readonly heartbeatMs: number;
}

export interface LeaseWatchOptions {
  readonly heartbeat: () => Promise<Heartbeat>;
  /** Aborted with `RunStopped`: `lease_lost` or `cancel`. */
  readonly run: AbortController;
  /** Told about heartbeats that failed. */
  readonly report: (error: unknown) => void;
  readonly times: LeaseTimes;
}

/**
 * Keeps a lease alive on a timer of its own, however busy the run is. A heartbeat that says the lease is another's, or
 * none that succeeded for a whole lease time, stops the run; so does a cancel flag, even if its push was lost.
 */
export class LeaseWatch {
  readonly #options: LeaseWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(options: LeaseWatchOptions) {
    this.#options = options;
    this.#extend();
    this.#schedule();
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#expiry);
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#beat(), this.#options.times.heartbeatMs);
  }

  async #beat(): Promise<void> {
    const asked = performance.now();
    try {
      const { held, cancelRequested } = await this.#options.heartbeat();
      if (this.#ended) return;
      if (!held) return this.#stop('lease_lost');
      if (cancelRequested) this.#stop('cancel');
      this.#extend(performance.now() - asked);
    } catch (error) {
      if (this.#ended) return;
      this.#options.report(error);
    }
    this.#schedule();
  }

  /** The lease lives on from when the heartbeat was asked for, not from when its answer came. */
  #extend(spentMs = 0): void {
    clearTimeout(this.#expiry);
    this.#expiry = setTimeout(() => this.#stop('lease_lost'), Math.max(0, this.#options.times.ttlMs - spentMs));
  }

  #stop(kind: 'lease_lost' | 'cancel'): void {
    this.#options.run.abort(new RunStopped(kind));
    if (kind === 'lease_lost') this.end();
  }
}
