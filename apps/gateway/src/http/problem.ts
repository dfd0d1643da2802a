import {
  type AppError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorDetail,
  AppError as Failure,
  isAppError,
  toAppError,
} from '@codedock/domain';

/** A problem of RFC 9457, the body of every error answer. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  /** Names the request; the same id stands in the log. */
  readonly instance: string;
  readonly errors?: readonly ErrorDetail[];
  readonly [extension: string]: unknown;
}

/** An answer for a failure: the problem, and headers that belong to it. */
export interface ProblemAnswer {
  readonly problem: Problem;
  readonly headers: Readonly<Record<string, string>>;
}

/** Media type of problems. */
export const PROBLEM_TYPE = 'application/problem+json';

/** After this time what cannot be served now is tried again, where nobody knows better. */
const SOON_MS = 1_000;

/** Whatever was thrown while a request was served, as an error of the closed set. Never a 500 for what a client sent. */
export function failureOf(thrown: unknown): AppError {
  if (isAppError(thrown)) return thrown;
  const status = statusOf(thrown);
  if (status === undefined) return toAppError(thrown);
  const code = CODE_OF_STATUS[status] ?? (status < 500 ? 'invalid_request' : undefined);
  return code === undefined
    ? toAppError(thrown)
    : new Failure(code, DETAILS[code] ?? 'The request is not valid.', { cause: thrown });
}

/** The answer for a failure of the request with the given id. */
export function problemFor(failure: AppError, requestId: string): ProblemAnswer {
  const extra = failure.extra ?? {};
  const { allow, ...members } = extra;
  const problem: Problem = {
    type: `urn:codedock:problem:${failure.code}`,
    title: titleOf(failure.code),
    status: ERROR_CODES[failure.code],
    detail: failure.message,
    code: failure.code,
    instance: `urn:uuid:${requestId}`,
    ...(failure.errors === undefined ? {} : { errors: failure.errors }),
    ...members,
  };
  const headers: Record<string, string> = {};
  const retryAfterMs = failure.retryAfterMs ?? (problem.status === 503 ? SOON_MS : undefined);
  if (retryAfterMs !== undefined) headers['retry-after'] = String(Math.max(1, Math.ceil(retryAfterMs / 1000)));
  if (failure.code === 'unauthenticated') headers['www-authenticate'] = 'Bearer realm="codedock"';
  if (typeof allow === 'string') headers['allow'] = allow;
  return { problem, headers };
}

/** Statuses that the HTTP framework answers on its own. */
const CODE_OF_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: 'malformed_json',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  413: 'too_large',
  415: 'unsupported_media_type',
  503: 'shutting_down',
};

const DETAILS: Partial<Record<ErrorCode, string>> = {
  malformed_json: 'The request cannot be read: its body is not JSON of the announced length.',
  not_found: 'There is nothing at this address.',
  too_large: 'The request body is larger than 1 MiB.',
  unsupported_media_type: 'Send the body as application/json.',
  shutting_down: 'This server is stopping; send the request again.',
};

function statusOf(thrown: unknown): number | undefined {
  if (typeof thrown !== 'object' || thrown === null) return undefined;
  if ('getStatus' in thrown && typeof thrown.getStatus === 'function') {
    const status: unknown = thrown.getStatus();
    return typeof status === 'number' ? status : undefined;
  }
  return 'statusCode' in thrown && typeof thrown.statusCode === 'number' ? thrown.statusCode : undefined;
}

function titleOf(code: ErrorCode): string {
  const words = code.replaceAll('_', ' ').replace('json', 'JSON');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
