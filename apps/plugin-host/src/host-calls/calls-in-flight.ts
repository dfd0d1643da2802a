/** What is known of one open call to a plugin, for the call-backs it may make meanwhile. */
export interface OpenCall {
  readonly sessionId: string;
  readonly runId: string;
  readonly capability: Buffer;
  /** 0 for gates, tools and ledger events; n for an event that came from n-fold emitting. */
  readonly emitDepth: number;
}

/** The open calls of one plugin process. */
export class CallsInFlight {
  private readonly open = new Set<OpenCall>();

  /** The call is open until the same object is given to `end`. */
  begin(call: OpenCall): void {
    this.open.add(call);
  }

  end(call: OpenCall): void {
    this.open.delete(call);
  }

  get size(): number {
    return this.open.size;
  }

  /** The newest call's capability for that session (and run, where one is named); undefined without such a call. */
  capabilityFor(sessionId: string, runId: string): Buffer | undefined {
    let newest: Buffer | undefined;
    for (const call of this.open) {
      if (call.capability.length === 0 || call.sessionId !== sessionId) continue;
      if (runId === '' || call.runId === runId) newest = call.capability;
    }
    return newest;
  }

  /** How deep an event emitted now would be. */
  emitDepth(): number {
    let deepest = 0;
    for (const call of this.open) deepest = Math.max(deepest, call.emitDepth);
    return deepest + 1;
  }
}
