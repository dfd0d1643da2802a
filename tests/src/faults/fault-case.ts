import type { Profile } from '../profiles.js';
import type { History } from './checker/history.js';
import type { FaultSystem, FaultSystemOptions } from './fault-system.js';
import type { Random } from './random.js';

/** How much is done: `short` in every CI run, `long` before a release. */
export type Tier = 'short' | 'long';

/** What a case found itself, beside what the checker finds in the history. Absent counts are 0. */
export interface CaseReport {
  /** Accepted runs that are gone or did not end. */
  readonly lost?: number;
  /** Effects, runs or ends that came about twice. */
  readonly doubled?: number;
  /** Writes of an attempt that was over. */
  readonly staleWrites?: number;
  readonly sseGaps?: number;
  readonly sseDups?: number;
  /** From each fault to the next sign of life of a run that was hit, milliseconds. */
  readonly resumeMs?: readonly number[];
  /** From each wish to end a run to its terminal state, milliseconds. */
  readonly cancelMs?: readonly number[];
  /** From the fault to service as usual, milliseconds. */
  readonly recoveryMs?: number;
  /** What was done and seen, in a few words, for the table. */
  readonly detail: string;
}

/** What a case works with. */
export interface CaseContext {
  readonly tier: Tier;
  readonly profile: Profile;
  /** As many runs as the caller of the suite wants in a flood, instead of the tier's. */
  readonly runs?: number;
  /** Seeded: the same seed makes the same choices. */
  readonly random: Random;
  /** `short` or `long`, whichever the tier is. */
  pick<T>(of: { readonly short: T; readonly long: T }): T;
  /**
   * The standing system that cases share: two gateways, three runners, one plugin-host, the acting plugin; whoever dies is
   * replaced. Its PostgreSQL server and its Redis are its own and may be ended, if they are started again. Whole again before
   * the next case. Leave no run open, no process stopped.
   */
  standing(): Promise<FaultSystem>;
  /** A system of the case's own; judged and ended after the case. The standing one is ended before: list such cases last. */
  start(options?: FaultSystemOptions): Promise<FaultSystem>;
  /** Judges the history of a system that the case has started itself, as those of the suite are judged after the case. */
  judge(history: History): void;
  /** A line below the table's row; for figures that fit no column. */
  note(line: string): void;
}

/** One way of doing harm, and what must hold all the same. Throws when it does not. */
export interface FaultCase {
  /** As in the catalogue: `R1`, `O1`, … */
  readonly id: string;
  readonly title: string;
  readonly tiers: readonly Tier[];
  readonly profiles: readonly Profile[];
  run(context: CaseContext): Promise<CaseReport>;
}

/** Both profiles. */
export const EACH_PROFILE: readonly Profile[] = ['embedded', 'redis'];
/** Both tiers. */
export const EACH_TIER: readonly Tier[] = ['short', 'long'];
