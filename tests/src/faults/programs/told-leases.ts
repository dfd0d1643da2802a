import type { RunnerParts } from '@codedock/runner';

/** What a runner has told of one lease. Milliseconds of the machine's monotonic clock, which all processes share. */
export interface ToldLease {
  /** No sooner than it was taken. */
  readonly takenMs: number;
  /** No later than its last sign of life: it ran on for a whole lease time from then, at the least. */
  readonly lastSignMs: number;
}

/** No fault of a clock moves it. */
const monotonic = () => Number(process.hrtime.bigint() / 1_000_000n);

const LINE = /^lease of (\S+) attempt (\d+) asked (\d+) answered (\d+)$/gm;

/**
 * A runner's parts that tell, on standard output, of each lease that is taken and of each sign of life that was accepted.
 * What was lost because its time ran out can so be told from what was taken from a runner that held it.
 */
export function tellingLeases(parts: RunnerParts): RunnerParts {
  const { runs } = parts.store;
  const tell = (runId: string, attempt: number, asked: number) =>
    process.stdout.write(`lease of ${runId} attempt ${attempt} asked ${asked} answered ${monotonic()}\n`);
  return {
    ...parts,
    store: {
      ...parts.store,
      runs: {
        ...runs,
        async takeLease(runId, ttlMs) {
          const asked = monotonic();
          const taken = await runs.takeLease(runId, ttlMs);
          if (taken.kind === 'leased') tell(runId, taken.snapshot.attempt, asked);
          return taken;
        },
        async heartbeat(runId, token, ttlMs) {
          const asked = monotonic();
          const heartbeat = await runs.heartbeat(runId, token, ttlMs);
          if (heartbeat.held) tell(runId, token, asked);
          return heartbeat;
        },
      },
    },
  };
}

/** The leases of a run by attempt, from what runners have told; one whose runner died while it was taken is missing. */
export function leasesIn(outputs: readonly string[], runId: string): ReadonlyMap<number, ToldLease> {
  const leases = new Map<number, ToldLease>();
  for (const output of outputs) {
    for (const [, run, number, asked, answered] of output.matchAll(LINE)) {
      if (run !== runId) continue;
      const [attempt, sign, seen] = [Number(number), Number(asked), Number(answered)];
      const known = leases.get(attempt) ?? { takenMs: seen, lastSignMs: sign };
      leases.set(attempt, {
        takenMs: Math.min(known.takenMs, seen),
        lastSignMs: Math.max(known.lastSignMs, sign),
      });
    }
  }
  return leases;
}

/** Both sides cut off or round parts of a millisecond. */
const ROUNDING_MS = 5;

/** How many leases were over, for want of a sign of life, when the next attempt took the run. */
export function countRunOut(leases: ReadonlyMap<number, ToldLease>, leaseMs: number): number {
  return [...leases].filter(([attempt, { takenMs }]) => {
    if (attempt === 1) return false;
    const former = leases.get(attempt - 1);
    return former === undefined || takenMs - former.lastSignMs >= leaseMs - ROUNDING_MS;
  }).length;
}
