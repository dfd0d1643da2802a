/** Something about the queue or the bus that operators want to see; none of it changes what happens to a run. */
export type QueueIncident =
  /** The queue gave up its lock on running jobs (an emptied or failed-over Redis does that to all of them). */
  | { readonly kind: 'lock_lost'; readonly jobs: readonly string[] }
  /** The queue hands out a job again, because whoever held it stopped renewing its lock. */
  | { readonly kind: 'redelivered'; readonly job: string }
  | { readonly kind: 'queue_error'; readonly error: Error }
  /** What takes jobs from the queue ended unasked; a fresh one follows after a pause. */
  | { readonly kind: 'listening_ended'; readonly error: Error }
  /** Jobs are taken again. */
  | { readonly kind: 'listening_again' }
  | { readonly kind: 'bus_error'; readonly error: Error }
  /** The live bus is back after a lost connection. */
  | { readonly kind: 'bus_reconnected' };

/** Gets incidents for logs and counters; must not throw. */
export type QueueReporter = (incident: QueueIncident) => void;

/** Whatever was thrown, as an Error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
