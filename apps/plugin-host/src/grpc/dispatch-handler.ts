import { isAppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import type { gate } from '@codedock/proto';
import type { handleUnaryCall } from '@grpc/grpc-js';
import type { PluginHost } from '../plugin-host.js';
import { cancellationOf } from './cancellation.js';
import { INTERNAL_CALLER_REFUSAL, type InternalCallers } from './internal-callers.js';
import { failure, isServiceError, toServiceError } from './status.js';

/** `Dispatch`, as a plain handler of the gRPC server: every gate of every run goes through it. */
export function dispatchHandler(
  host: PluginHost,
  callers: InternalCallers,
  log: Logger,
): handleUnaryCall<gate.GateRequest, gate.GateAnswer> {
  return (call, callback) => {
    if (!callers.admits(call.metadata)) {
      callback(failure(INTERNAL_CALLER_REFUSAL.code, INTERNAL_CALLER_REFUSAL.message));
      return;
    }
    const cancellation = cancellationOf(call);
    host.dispatch(call.request, cancellation.signal).then(
      (answer) => {
        cancellation.answered();
        callback(null, answer);
      },
      (error: unknown) => {
        cancellation.answered();
        if (!isAppError(error) && !isServiceError(error)) log.error({ err: error }, 'Dispatch failed unexpectedly');
        callback(toServiceError(error));
      },
    );
  };
}
