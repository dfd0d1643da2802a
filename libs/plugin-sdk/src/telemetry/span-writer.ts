/** W3C trace context as headers. */
export interface TraceHeaders {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** Writes a span around the answer to one question, and says what stands for it in further calls. */
export interface SpanWriter {
  during<T>(name: string, parent: TraceHeaders, work: () => Promise<T>): Promise<T>;
  headers(): TraceHeaders;
  /** Sends what is left; never rejects. */
  close(timeoutMs: number): Promise<void>;
}
