/** W3C trace context that travels with a job. */
export interface TraceContext {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** One ring. The row is the truth: any number of rings is harmless and a lost one is rung again. */
export interface Ring {
  readonly runId: string;
  /** Value of the run's doorbell column after it was raised for this ring; with the run id it names the job. */
  readonly doorbell: number;
  /** The tenant's runs in flight: tenants with few go first. */
  readonly priority: number;
  readonly trace: TraceContext;
}

/** Wakes runners. Rejects with `queue_unavailable`; the caller answers success all the same, since the reconciler rings again. */
export interface Doorbell {
  ring(ring: Ring): Promise<void>;
  /** How many rings wait to be taken. */
  waiting(): Promise<number>;
  /** True while this ring waits to be taken; false once it was, and where the queue has lost it. */
  waits(ring: Pick<Ring, 'runId' | 'doorbell'>): Promise<boolean>;
}
