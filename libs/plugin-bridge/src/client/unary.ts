import type { HookOutcome } from '@codedock/domain';
import { withoutCallerStack } from '@codedock/proto';
import { type CallOptions, type ClientUnaryCall, type Metadata, type ServiceError, status } from '@grpc/grpc-js';

/** How an RPC ended. */
export type UnaryResult<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | {
      readonly kind: 'failed';
      readonly error: ServiceError;
      /** The server had begun to answer. */
      readonly headers: boolean;
      /** Certainly never left this process. */
      readonly unsent: boolean;
    };

type Method<Q, A> = (
  request: Q,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: A) => void,
) => ClientUnaryCall;

/** One RPC with a deadline in milliseconds from now; never rejects. Aborting the signal cancels it. */
export function callOnce<Q, A>(
  method: Method<Q, A>,
  request: Q,
  metadata: Metadata,
  deadlineMs: number,
  signal: AbortSignal | undefined,
  target: string,
): Promise<UnaryResult<A>> {
  return new Promise((resolve) => {
    let headers = false;
    const onAbort = () => call.cancel();
    const call = withoutCallerStack(() =>
      method(request, metadata, { deadline: Date.now() + deadlineMs }, (error, value) => {
        signal?.removeEventListener('abort', onAbort);
        if (error === null) resolve({ kind: 'answered', value });
        // Until a connection carries the call, its peer is still the channel's target.
        else resolve({ kind: 'failed', error, headers, unsent: call.getPeer() === target });
      }),
    );
    call.once('metadata', () => {
      headers = true;
    });
    if (signal?.aborted) call.cancel();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** What a failed RPC means for a gate. */
export function outcomeOf(error: ServiceError): HookOutcome {
  switch (error.code) {
    case status.DEADLINE_EXCEEDED:
      return 'timeout';
    case status.UNAVAILABLE:
    case status.CANCELLED:
      return 'unreachable';
    case status.FAILED_PRECONDITION:
      return 'not ready';
    case status.RESOURCE_EXHAUSTED:
      return 'oversize';
    case status.INTERNAL:
      return error.details.startsWith('Response message parsing error') ? 'invalid' : 'error';
    default:
      return 'error';
  }
}
