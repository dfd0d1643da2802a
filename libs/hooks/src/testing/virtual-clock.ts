import type { TimerClock } from '@codedock/domain';

/** A clock whose time passes only when told. */
export class VirtualClock implements TimerClock {
  private time = 0;
  private sleepers: { at: number; wake: () => void }[] = [];

  now(): number {
    return this.time;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const sleeper = { at: this.time + ms, wake: resolve };
      this.sleepers.push(sleeper);
      signal.addEventListener('abort', () => {
        this.sleepers = this.sleepers.filter((other) => other !== sleeper);
        resolve();
      });
    });
  }

  after(ms: number, run: () => void): () => void {
    const sleeper = { at: this.time + ms, wake: run };
    this.sleepers.push(sleeper);
    return () => {
      this.sleepers = this.sleepers.filter((other) => other !== sleeper);
    };
  }

  /** Sleepers that still wait. */
  get waiting(): number {
    return this.sleepers.length;
  }

  /** Lets time pass in steps from sleeper to sleeper, with a turn of the event loop in between. */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    for (;;) {
      await settle();
      const next = this.sleepers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.time = next.at;
      this.sleepers = this.sleepers.filter((other) => other !== next);
      next.wake();
    }
    this.time = end;
    await settle();
  }
}

/** Lets every promise that can settle do so. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 20; round += 1) await Promise.resolve();
}
