import { type ErrorCode, isAppError } from '@codedock/domain';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';

const statusOf: Readonly<Partial<Record<ErrorCode, status>>> = {
  invalid_request: status.INVALID_ARGUMENT,
  too_large: status.RESOURCE_EXHAUSTED,
  rate_limited: status.RESOURCE_EXHAUSTED,
  conflict: status.ALREADY_EXISTS,
  not_found: status.NOT_FOUND,
  plugin_not_found: status.NOT_FOUND,
  capability_refused: status.PERMISSION_DENIED,
  forbidden: status.PERMISSION_DENIED,
  unauthenticated: status.UNAUTHENTICATED,
  not_supported: status.UNIMPLEMENTED,
  plugin_unavailable: status.UNAVAILABLE,
  plugin_refused: status.FAILED_PRECONDITION,
  shutting_down: status.UNAVAILABLE,
};

/** Whether something is an error of a gRPC call, with its code. */
export function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error;
}

/** An error as a gRPC answer: code and safe message; what is not meant for the peer becomes INTERNAL without its text. */
export function toServiceError(error: unknown): ServiceError {
  if (isServiceError(error)) return failure(error.code, error.details);
  if (isAppError(error)) return failure(statusOf[error.code] ?? status.INTERNAL, error.message);
  return failure(status.INTERNAL, 'an internal error occurred; its cause is in the log of the plugin-host');
}

/** A gRPC error with a code and a message. */
export function failure(code: status, details: string): ServiceError {
  return Object.assign(new Error(details), { code, details, metadata: new Metadata() });
}
