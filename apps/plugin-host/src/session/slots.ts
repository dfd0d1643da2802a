interface Waiter {
  readonly grant: () => void;
}

/** A fixed number of places for calls; who finds none waits in order. */
export class Slots {
  private taken = 0;
  private readonly waiters: Waiter[] = [];

  constructor(private places: number) {}

  /** Places there are. */
  get size(): number {
    return this.places;
  }

  /** Changes the number of places; calls that have one keep it, waiting ones get what was added. */
  resize(places: number): void {
    this.places = places;
    while (this.taken < this.places && this.waiters.length > 0) {
      this.taken++;
      this.waiters.shift()?.grant();
    }
  }

  /** Takes a free place; false when there is none. */
  tryTake(): boolean {
    if (this.taken >= this.places) return false;
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
    const next = this.taken > this.places ? undefined : this.waiters.shift();
    if (next === undefined) this.taken--;
    else next.grant();
  }

  /** Places taken now. */
  get inUse(): number {
    return this.taken;
  }
}
