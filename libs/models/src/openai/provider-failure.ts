import { AppError, isAppError } from '@codedock/domain';
import { APIConnectionError, APIError } from 'openai';

/** A failed attempt at the provider: what the run is told, and whether another attempt makes sense. */
export interface ProviderFailure {
  readonly error: AppError;
  readonly retryable: boolean;
  /** Milliseconds the provider asked to wait. */
  readonly retryAfterMs?: number;
}

/** The longest wait a provider may ask for before the call is given up, milliseconds. */
const LONGEST_WAIT_MS = 60_000;

/** Judges what an attempt threw. */
export function providerFailure(thrown: unknown, now: number): ProviderFailure {
  const inner = appErrorIn(thrown);
  if (inner !== undefined)
    return { error: inner, retryable: inner.code === 'provider_unavailable' || inner.code === 'provider_timeout' };
  if (thrown instanceof APIError && !(thrown instanceof APIConnectionError) && thrown.status !== undefined) {
    return statusFailure(thrown, thrown.status, now);
  }
  if (thrown instanceof SyntaxError) {
    return {
      error: new AppError('provider_protocol', 'The model provider sent a stream that cannot be read.', {
        cause: thrown,
      }),
      retryable: false,
    };
  }
  if (thrown instanceof APIError && !(thrown instanceof APIConnectionError)) {
    // The stream itself carried an error object.
    return {
      error: new AppError('provider_unavailable', `The model provider failed while it answered: ${shown(thrown)}`, {
        cause: thrown,
      }),
      retryable: true,
    };
  }
  return {
    error: new AppError('provider_unavailable', 'The connection to the model provider failed or broke.', {
      cause: thrown,
    }),
    retryable: true,
  };
}

function statusFailure(thrown: APIError, status: number, now: number): ProviderFailure {
  const retryAfterMs = retryAfter(thrown.headers, now);
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  const error = (code: 'provider_throttled' | 'provider_unavailable' | 'provider_rejected', message: string) =>
    new AppError(code, message, { cause: thrown, ...wait });
  if (status === 429) {
    const exhausted = thrown.code === 'insufficient_quota';
    const tooLong = retryAfterMs !== undefined && retryAfterMs > LONGEST_WAIT_MS;
    const message = exhausted
      ? 'The account at the model provider has no quota left.'
      : 'The model provider limits the rate of requests.';
    return { error: error('provider_throttled', message), retryable: !exhausted && !tooLong, ...wait };
  }
  if (status === 408 || status === 409 || status >= 500) {
    const tooLong = retryAfterMs !== undefined && retryAfterMs > LONGEST_WAIT_MS;
    return {
      error: error('provider_unavailable', `The model provider answered ${status}.`),
      retryable: !tooLong,
      ...wait,
    };
  }
  if (status === 401 || status === 403) {
    return {
      error: error(
        'provider_rejected',
        `The model provider refused the credentials (${status}): check OPENAI_API_KEY.`,
      ),
      retryable: false,
    };
  }
  return {
    error: error('provider_rejected', `The model provider refused the request (${status}): ${shown(thrown)}`),
    retryable: false,
  };
}

/** Milliseconds from `retry-after-ms` or `retry-after` (seconds or a date). */
export function retryAfter(headers: Headers | undefined, now: number): number | undefined {
  const exact = Number(headers?.get('retry-after-ms') ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const text = headers?.get('retry-after');
  if (text === null || text === undefined || text.trim() === '') return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return seconds >= 0 ? Math.round(seconds * 1000) : undefined;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function shown(thrown: APIError): string {
  const detail =
    typeof thrown.error === 'object' && thrown.error !== null && 'message' in thrown.error
      ? thrown.error.message
      : undefined;
  const text = typeof detail === 'string' && detail !== '' ? detail : 'it gave no reason';
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

/** An AppError thrown below the client, which wraps it. */
function appErrorIn(thrown: unknown): AppError | undefined {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 6; error = error.cause, depth += 1) {
    if (isAppError(error)) return error;
  }
  return undefined;
}
