import type { Clock } from '@codedock/domain';
import { type Logger, metrics } from '@codedock/platform';
import { finishDeletions, type Pruned, type PruneOptions, pruneOnce } from './prune.js';

/** How often deletions of sessions are gone on with, and how often everything is pruned, milliseconds. */
const LOOK_MS = 10_000;
const PASS_MS = 3_600_000;

export interface RetentionOptions extends Omit<PruneOptions, 'signal' | 'onFailure'> {
  /** True while this process is the one that prunes; should two for a moment, each row still goes once. */
  readonly leading: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Deletes what is old enough, once an hour and soon after becoming the leader. The returned function ends it. */
export function startRetention({ leading, clock, logger, ...options }: RetentionOptions): () => Promise<void> {
  const stopping = new AbortController();
  let passAt = 0;
  const pass: PruneOptions = {
    ...options,
    signal: stopping.signal,
    onFailure: (err, what) => logger.warn({ err, ...what }, 'old rows are not deleted; the next pass tries again'),
  };
  const look = async () => {
    if (clock.now() < passAt) {
      report({ sessions: await finishDeletions(pass) }, logger);
      return;
    }
    passAt = clock.now() + PASS_MS;
    report(await pruneOnce(pass), logger);
  };
  const loop = async () => {
    while (!stopping.signal.aborted) {
      try {
        if (leading()) await look();
      } catch (error) {
        logger.warn({ err: error }, 'old rows are not deleted; the next pass tries again');
      }
      await clock.sleep(passAt === 0 ? 1_000 : LOOK_MS, stopping.signal);
    }
  };
  const done = loop();
  return () => {
    stopping.abort();
    return done;
  };
}

function report(pruned: Partial<Pruned>, logger: Logger): void {
  const some = Object.entries(pruned).filter(([, count]) => count > 0);
  if (some.length === 0) return;
  for (const [kind, count] of some) metrics.pruned.add(count, { kind });
  logger.info(Object.fromEntries(some), 'old rows were deleted');
}
