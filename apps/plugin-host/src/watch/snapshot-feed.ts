import type { gate } from '@codedock/proto';
import { Observable, type Subscriber } from 'rxjs';

/** Hands the newest snapshot to everyone who watches; changes that happen together come as one. */
export class SnapshotFeed {
  private readonly watchers = new Set<Subscriber<gate.Snapshot>>();
  private scheduled: NodeJS.Immediate | undefined;
  private closed = false;

  constructor(private readonly take: () => gate.Snapshot) {}

  /** The snapshot now and after every change; completes when the host drains. */
  watch(): Observable<gate.Snapshot> {
    return new Observable((watcher) => {
      watcher.next(this.take());
      if (this.closed) {
        watcher.complete();
        return undefined;
      }
      this.watchers.add(watcher);
      return () => this.watchers.delete(watcher);
    });
  }

  /** Something a snapshot shows has changed. */
  changed(): void {
    if (this.closed || this.scheduled !== undefined) return;
    this.scheduled = setImmediate(() => {
      this.scheduled = undefined;
      this.push();
    });
  }

  /** Sends a last snapshot and ends every watch. */
  close(): void {
    this.closed = true;
    clearImmediate(this.scheduled);
    this.push();
    for (const watcher of [...this.watchers]) watcher.complete();
  }

  private push(): void {
    if (this.watchers.size === 0) return;
    const snapshot = this.take();
    for (const watcher of [...this.watchers]) watcher.next(snapshot);
  }
}
