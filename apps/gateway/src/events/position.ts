import { invalid } from '../http/validation.js';

const SEQ = /^\d{1,15}$/;

/**
 * The seq after which a stream starts: the header a reconnecting browser sends, else the query, else 0.
 * @throws AppError `invalid_request` naming the one that is no seq.
 */
export function startOf(lastEventId: string | string[] | undefined, after: string | undefined): number {
  const header = lastEventId === undefined ? undefined : seqOf(lastEventId, 'Last-Event-ID');
  const query = after === undefined ? undefined : seqOf(after, '/after');
  return header ?? query ?? 0;
}

/** @throws AppError `invalid_request` for a start beyond what the session has: a client that resumes there has seen another ledger. */
export function requireReached(after: number, lastSeq: number, fromHeader: boolean): void {
  if (after <= lastSeq) return;
  throw invalid('position', [
    { path: fromHeader ? 'Last-Event-ID' : '/after', message: `is beyond the last event, ${lastSeq}` },
  ]);
}

function seqOf(value: string | string[], path: string): number {
  if (typeof value === 'string' && SEQ.test(value)) return Number(value);
  throw invalid('position', [{ path, message: 'must be the id of an event: a whole number from 0' }]);
}
