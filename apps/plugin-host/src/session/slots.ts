interface Waiter {
  readonly grant: () => void;
}

/** A fixed number of places for calls; who finds none waits in order. */
export class Slots {
  private taken = 0;
  private readonly waiters: Waiter[] = [];

  constructor(private readonly size: number) {}

  /** Takes a free place; false when there is none. */
  tryTake(): boolean {
    if (this.taken >= this.size) return false;
    this.taken++;
    return true;
  }

  /** Waits for a place: true with the place taken, false when the time passed or the signal fired without one. */
  take(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    if (signal?.aborted) return Promise.resolve(false);
    if (this.tryTake()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const giveUp = () => {
        this.waiters.splice(this.waiters.indexOf(waiter), 1);
        settle(false);
      };
      const timer = setTimeout(giveUp, timeoutMs);
      const settle = (granted: boolean) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        resolve(granted);
      };
      const waiter: Waiter = { grant: () => settle(true) };
      this.waiters.push(waiter);
      signal?.addEventListener('abort', giveUp);
    });
  }

  /** Gives a place back, to the longest waiter if there is one. */
  release(): void {
    const next = this.waiters.shift();
    if (next === undefined) this.taken--;
    else next.grant();
  }

  /** Places taken now. */
  get inUse(): number {
    return this.taken;
  }
}
