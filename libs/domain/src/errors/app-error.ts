import type { JsonValue } from '../json.js';
import { ERROR_CODES, type ErrorCode, isErrorCode } from './codes.js';

/** One wrong place of a request: a JSON path such as `/content` and what is wrong there. */
export interface ErrorDetail {
  readonly path: string;
  readonly message: string;
}

/** Further members of an error, safe to show. */
export interface ErrorExtras {
  readonly cause?: unknown;
  /** Milliseconds after which trying again makes sense. */
  readonly retryAfterMs?: number;
  readonly errors?: readonly ErrorDetail[];
  readonly extra?: Readonly<Record<string, JsonValue>>;
}

/**
 * The one error type of the product. `code` and `message` cross processes and reach users: the message says what is
 * wrong, where, and the remedy. `cause` stays in logs. Identity is by code, not by class.
 */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly retryAfterMs?: number;
  readonly errors?: readonly ErrorDetail[];
  readonly extra?: Readonly<Record<string, JsonValue>>;

  constructor(code: ErrorCode, message: string, extras: ErrorExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.name = 'AppError';
    this.code = code;
    if (extras.retryAfterMs !== undefined) this.retryAfterMs = extras.retryAfterMs;
    if (extras.errors !== undefined) this.errors = extras.errors;
    if (extras.extra !== undefined) this.extra = extras.extra;
  }

  /** The HTTP status of this error's code. */
  get status(): number {
    return ERROR_CODES[this.code];
  }
}

/** True for an error of this product with the given code (with any code, when none is given). */
export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return false;
  return isErrorCode(error.code) && error.name === 'AppError' && (code === undefined || error.code === code);
}

/** Whatever was thrown, as an AppError: itself, or `invariant_broken` with the thing as cause. */
export function toAppError(error: unknown): AppError {
  if (isAppError(error)) return error;
  return new AppError('invariant_broken', 'An internal error occurred; its cause is in the logs.', { cause: error });
}
