import { AppError, type ErrorCode, isAppError, isErrorCode } from '@codedock/domain';

/** SQLSTATE of a refusal by one of the database's functions; the error code is its hint. */
const REFUSED = 'CD001';
/** SQLSTATE with which a function asks to be run again. */
const RUN_AGAIN = 'CD002';
const UNIQUE_VIOLATION = '23505';

/** NUL, unpaired surrogates or broken UTF-8 in text or jsonb. */
const ILL_FORMED = new Set(['22P02', '22P05', '22021']);
/** Connection exceptions, shutdown and start of the server, too many connections, and Node's own. */
const UNREACHABLE =
  /^(08...|57P0.|53300|ECONNREFUSED|ECONNRESET|ENOTFOUND|ENOENT|EPIPE|ETIMEDOUT|EAI_AGAIN|EHOSTUNREACH|P1001|P1008|P1017)$/;
/**
 * What the database could not do at this moment and can later: serialization failures and deadlocks, a lock not had in time,
 * a statement that was cancelled, no resources left, a server that is read-only since another took its place. The last are
 * Prisma's own for the same.
 */
const NOT_NOW = /^(40001|40P01|55P03|57014|53...|25006|P2024|P2028|P2034|P2037)$/;
/** Of these, what is over at once and whose transaction changed nothing. */
const CONFLICT = new Set(['40001', '40P01']);
const GIVEN_UP = 'Query read timeout';
const UNREACHABLE_TEXT =
  /Connection terminated|timeout exceeded when trying to connect|pool after calling end|is not queryable|Query read timeout|^timeout expired$/;

interface DatabaseFailure {
  readonly code?: unknown;
  readonly hint?: unknown;
  readonly constraint?: unknown;
  readonly message?: unknown;
}

/** What the database, its client or Prisma threw, as an error of the product. */
export function databaseError(error: unknown): AppError {
  if (isAppError(error)) return error;
  const failure = asFailure(error);
  const code = typeof failure.code === 'string' ? failure.code : '';
  const message = typeof failure.message === 'string' ? failure.message : '';
  if (code === REFUSED && typeof failure.hint === 'string' && isErrorCode(failure.hint)) {
    return refusal(failure.hint, message);
  }
  if (ILL_FORMED.has(code)) {
    return new AppError(
      'invalid_request',
      'Text holds a NUL or an unpaired surrogate, which cannot be stored; remove or replace it.',
      { cause: error },
    );
  }
  if (UNREACHABLE.test(code) || UNREACHABLE_TEXT.test(message)) {
    return new AppError('store_unavailable', 'The database cannot be reached; try again shortly.', {
      cause: error,
      retryAfterMs: 1_000,
    });
  }
  if (NOT_NOW.test(code)) {
    return new AppError('store_unavailable', 'The database could not do this now; try again shortly.', {
      cause: error,
      retryAfterMs: 1_000,
    });
  }
  return new AppError('invariant_broken', 'The database refused a statement; its cause is in the logs.', {
    cause: error,
  });
}

/** True when the transaction changed nothing and running it again is right. */
export function isRunAgain(error: unknown): boolean {
  const { code, constraint } = asFailure(error);
  return code === RUN_AGAIN || (code === UNIQUE_VIOLATION && constraint === 'runs_one_active');
}

/** True when a statement lost to another one at the same time: it changed nothing, and the same again may succeed. */
export function isConflict(error: unknown): boolean {
  return CONFLICT.has(String(asFailure(error).code));
}

/** True when this side waits no longer for a statement, which the server may be at still. */
export function isGivenUp(error: unknown): boolean {
  return asFailure(error).message === GIVEN_UP;
}

/** True when a row with the same unique key exists. */
export function isDuplicate(error: unknown): boolean {
  const { code } = asFailure(error);
  return code === UNIQUE_VIOLATION || code === 'P2002';
}

/** Refusals that go away by themselves, and after how many milliseconds asking again makes sense. */
const RETRY_AFTER_MS: Partial<Record<ErrorCode, number>> = { idempotency_in_progress: 1_000, rate_limited: 2_000 };

function refusal(code: ErrorCode, message: string): AppError {
  const retryAfterMs = RETRY_AFTER_MS[code];
  return new AppError(code, message, retryAfterMs === undefined ? {} : { retryAfterMs });
}

/** What Prisma's driver calls errors of the connection, whose own codes it does not keep. */
const CONNECTION_KINDS = new Map<unknown, string>([
  ['DatabaseNotReachable', 'ECONNREFUSED'],
  ['ConnectionClosed', 'ECONNRESET'],
  ['SocketTimeout', 'ETIMEDOUT'],
]);

/** Prisma wraps the driver's error; the innermost one that carries a code is judged. */
function asFailure(error: unknown): DatabaseFailure {
  if (typeof error !== 'object' || error === null) return { message: String(error) };
  const original = prismaOriginal(error);
  return original ?? (error as DatabaseFailure);
}

function prismaOriginal(error: object): DatabaseFailure | undefined {
  const meta = (error as { meta?: { driverAdapterError?: { cause?: Record<string, unknown> } } }).meta;
  const cause = meta?.driverAdapterError?.cause ?? (error as { cause?: Record<string, unknown> }).cause;
  const code = cause?.['originalCode'] ?? CONNECTION_KINDS.get(cause?.['kind']);
  if (typeof code !== 'string') return undefined;
  const hint = cause?.['hint'];
  return { code, hint, message: cause?.['originalMessage'] };
}
