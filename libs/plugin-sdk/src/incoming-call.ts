import type { Host } from './host/host.js';

/** What the transport knows of a call. */
export interface IncomingCall {
  /** Made when it is first looked at. */
  readonly signal: AbortSignal;
  readonly host: Host;
  /** Milliseconds until the caller's deadline; Infinity without one. */
  readonly timeLeftMs: number;
}
