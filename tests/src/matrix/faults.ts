/** Everything that is done to a plugin while it is asked. Told to the plugin by the caller's metadata. */
export const FAULTS = [
  'hang',
  'SIGSTOP',
  'spin',
  'late',
  'exit 1',
  'SIGKILL',
  'throw',
  'garbage',
  'wrong shape',
  'wrong direction',
  'oversize',
  'other call',
  'slow',
  'dead',
] as const;
export type Fault = (typeof FAULTS)[number];

/** Faults after which no answer comes in time. */
export const HANGING: ReadonlySet<Fault> = new Set<Fault>(['hang', 'SIGSTOP', 'spin', 'late']);
/** Faults that end the process in the middle of the call. */
export const CRASHING: ReadonlySet<Fault> = new Set<Fault>(['exit 1', 'SIGKILL']);
/** Faults after which the process does nothing any more until it is killed. */
export const PARALYSED: ReadonlySet<Fault> = new Set<Fault>(['SIGSTOP', 'spin']);

/** Name of the tool that the faulty plugin offers. */
export const FAULTY_TOOL = 'probe';
/** Milliseconds of one question, and of the tool. */
export const QUESTION_MS = 2_000;
