import type { ServerUnaryCall } from '@grpc/grpc-js';

// One for all: capturing a stack per cancelled call would tell nothing.
const CANCELLED = new DOMException('the caller cancelled the call', 'AbortError');

/** Tells the work on a call that its caller gave up. */
export interface Cancellation {
  /** Fires when the caller gives the call up, by cancel, deadline or a lost connection. */
  readonly signal: AbortSignal;
  /** The call is answered: from now on the end of it is no cancel. */
  answered(): void;
}

/** The cancellation of a call; grpc-js reports the end of every call as one. */
export function cancellationOf(call: ServerUnaryCall<unknown, unknown>): Cancellation {
  const abort = new AbortController();
  let open = true;
  call.on('cancelled', () => {
    if (open) abort.abort(CANCELLED);
  });
  return {
    signal: abort.signal,
    answered: () => {
      open = false;
    },
  };
}
