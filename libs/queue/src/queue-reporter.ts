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

/** A server that does not know AUTH or HELLO repeats what they were sent with. */
const ECHO = /,? with args beginning with:.*/s;

/**
 * Whatever was thrown, as an Error that may be logged. A refusal by Redis carries the refused command, and where that is
 * AUTH or HELLO, the password.
 */
export function asError(thrown: unknown): Error {
  if (!(thrown instanceof Error)) return new Error(String(thrown).replace(ECHO, ''));
  if (!('command' in thrown) && !ECHO.test(thrown.message)) return thrown;
  const error = new Error(thrown.message.replace(ECHO, ''));
  error.name = thrown.name;
  const frames = thrown.stack?.match(/^ {4}at .*$/gm) ?? [];
  error.stack = [`${error.name}: ${error.message}`, ...frames].join('\n');
  return Object.assign(error, 'code' in thrown ? { code: thrown.code } : {});
}
