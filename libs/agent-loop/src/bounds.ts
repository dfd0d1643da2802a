/**
 * The life of an attempt, or of a part of it. Everything the loop awaits is raced against it, so that nothing – a hung
 * model, tool, hook or database – keeps it once its signal has aborted, and no code of it runs on afterwards.
 */
export class Bounds {
  private readonly controller = new AbortController();
  private readonly waiting = new Set<(reason: unknown) => void>();
  private readonly parent: AbortSignal;
  private readonly onParentAbort = () => this.close(this.parent.reason);

  constructor(parent: AbortSignal) {
    this.parent = parent;
    if (parent.aborted) this.close(parent.reason);
    else parent.addEventListener('abort', this.onParentAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  get closed(): boolean {
    return this.controller.signal.aborted;
  }

  /** Throws the reason once closed. */
  check(): void {
    if (this.closed) throw this.controller.signal.reason;
  }

  /** The promise's outcome, or a rejection with the reason as soon as these bounds close. A late outcome is dropped. */
  race<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.closed) reject(this.controller.signal.reason);
      else this.waiting.add(reject);
      promise.then(
        (value) => {
          this.waiting.delete(reject);
          resolve(value);
        },
        (error: unknown) => {
          this.waiting.delete(reject);
          reject(error);
        },
      );
    });
  }

  /** Ends everything in these bounds with that reason. Later calls change nothing. */
  close(reason: unknown): void {
    if (this.closed) return;
    this.parent.removeEventListener('abort', this.onParentAbort);
    this.controller.abort(reason);
    for (const reject of this.waiting) reject(reason);
    this.waiting.clear();
  }

  /** Lets go of the parent when the work is done. */
  release(): void {
    this.parent.removeEventListener('abort', this.onParentAbort);
  }
}
