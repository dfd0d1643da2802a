import type { plugin } from '@codedock/proto';

/** Events kept for one plugin; what comes beyond is dropped and counted. */
export const queueCapacity = 1_000;

/** Runs whose events one plugin may handle at the same time. */
const lanes = 4;

interface Entry {
  readonly envelope: plugin.Envelope;
  readonly emitDepth: number;
  readonly key: string;
}

/** Events waiting for one plugin: in order per run (per session where there is no run), at most once, bounded. */
export class NotificationQueue {
  dropped = 0;
  private readonly waiting: Entry[] = [];
  private readonly busy = new Set<string>();

  constructor(private readonly deliver: (envelope: plugin.Envelope, emitDepth: number) => Promise<void>) {}

  /** Takes an event and answers at once, whether it is kept or dropped. */
  add(envelope: plugin.Envelope, emitDepth = 0): void {
    if (this.waiting.length >= queueCapacity) {
      this.dropped++;
      return;
    }
    this.waiting.push({ envelope, emitDepth, key: envelope.runId || envelope.sessionId });
    this.pump();
  }

  /** Forgets what waits, when the plugin is taken out. */
  clear(): void {
    this.waiting.length = 0;
  }

  private pump(): void {
    while (this.busy.size < lanes) {
      const at = this.waiting.findIndex((entry) => !this.busy.has(entry.key));
      const [entry] = at < 0 ? [] : this.waiting.splice(at, 1);
      if (entry === undefined) return;
      this.busy.add(entry.key);
      void this.deliver(entry.envelope, entry.emitDepth).finally(() => {
        this.busy.delete(entry.key);
        this.pump();
      });
    }
  }
}
