import type { TraceCarrier } from '@codedock/platform';
import { peekCapability } from '@codedock/plugin-bridge';

/** What is known of one open call to a plugin, for the call-backs it may make meanwhile. */
export interface OpenCall {
  readonly sessionId: string;
  readonly runId: string;
  readonly capability: Buffer;
  /** 0 for gates, tools and ledger events; n for an event that came from n-fold emitting. */
  readonly emitDepth: number;
  /** When the host stops waiting for it, milliseconds of `performance.now()`: no correction of the clock moves it. */
  readonly endsAt: number;
  /** The trace the call belongs to, for call-backs that bring none. */
  readonly trace?: TraceCarrier;
  /** Who the call is for, as it travels. */
  readonly principal?: Buffer;
}

/** The open calls of one plugin process. */
export class CallsInFlight {
  private readonly open = new Set<OpenCall>();
  /** Events that nobody answers: told to the plugin, and perhaps being handled. */
  private readonly told = new Set<OpenCall>();

  /** The call is open until the same object is given to `end`. */
  begin(call: OpenCall): void {
    this.open.add(call);
  }

  end(call: OpenCall): void {
    this.open.delete(call);
  }

  /** An event that nobody answers gives authority until its `endsAt`, and keeps nobody waiting. */
  tell(call: OpenCall): void {
    this.told.add(call);
    setTimeout(() => this.told.delete(call), Math.max(call.endsAt - performance.now(), 0)).unref();
  }

  /** Calls that somebody waits for. */
  get size(): number {
    return this.open.size;
  }

  /** The call that may be called back for, of that session (and run, where one is named): the one whose capability is valid longest. */
  authorityFor(sessionId: string, runId: string): OpenCall | undefined {
    const found = [...this.open, ...this.told].filter(
      (call) => call.capability.length > 0 && call.sessionId === sessionId && (runId === '' || call.runId === runId),
    );
    if (found.length < 2) return found[0];
    return found.reduce((best, call) => (expiryOf(call) >= expiryOf(best) ? call : best));
  }

  /** How deep an event emitted now would be. */
  emitDepth(): number {
    let deepest = 0;
    for (const call of this.open) deepest = Math.max(deepest, call.emitDepth);
    for (const call of this.told) deepest = Math.max(deepest, call.emitDepth);
    return deepest + 1;
  }
}

function expiryOf({ capability }: OpenCall): number {
  return peekCapability(capability)?.expiresAt ?? 0;
}
