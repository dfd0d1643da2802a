import { type ErrorCode, isAppError } from '@codedock/domain';
import { status } from '@grpc/grpc-js';
import { RpcException } from '@nestjs/microservices';

const STATUS_OF: Readonly<Partial<Record<ErrorCode, status>>> = {
  invalid_request: status.INVALID_ARGUMENT,
  not_supported: status.INVALID_ARGUMENT,
  too_large: status.RESOURCE_EXHAUSTED,
  not_found: status.NOT_FOUND,
  capability_refused: status.PERMISSION_DENIED,
  forbidden: status.PERMISSION_DENIED,
  run_ended: status.FAILED_PRECONDITION,
  session_archived: status.FAILED_PRECONDITION,
  config_invalid: status.FAILED_PRECONDITION,
  rate_limited: status.RESOURCE_EXHAUSTED,
  provider_timeout: status.DEADLINE_EXCEEDED,
  provider_throttled: status.RESOURCE_EXHAUSTED,
  provider_unavailable: status.UNAVAILABLE,
  provider_rejected: status.FAILED_PRECONDITION,
  provider_protocol: status.UNAVAILABLE,
  store_unavailable: status.UNAVAILABLE,
  shutting_down: status.UNAVAILABLE,
};

/** An error as a gRPC answer; one that is not meant for the peer stays as it is, to be logged and told as INTERNAL. */
export function rpcError(error: unknown): unknown {
  if (!isAppError(error)) return error;
  return new RpcException({ code: STATUS_OF[error.code] ?? status.INTERNAL, message: error.message });
}
