import { type RunSnapshot, runEnd, type TraceContext } from '@codedock/domain';
import type { EndingRun } from '@codedock/store';
import { publishEvents } from './after-commit.js';
import type { RunPorts } from './ports.js';
import { terminateRun } from './terminate-run.js';

/** What a doorbell gave: a run to execute, or nothing to do. */
export type LeasedRun =
  | {
      readonly kind: 'leased';
      readonly snapshot: RunSnapshot;
      readonly trace: TraceContext;
      /** Time since it was queued, milliseconds; null for a run taken over from a runner whose lease expired. */
      readonly queuedMs: number | null;
    }
  | { readonly kind: 'nothing' };

/**
 * Takes a rung run's lease. A live lease, a terminal or a missing run is nothing to do; so is a run that has lost
 * five attempts in a row without progress: it is ended here as `crash_loop`, by this lease, which executes nothing.
 */
export async function leaseRun(ports: RunPorts, runId: string, ttlMs: number): Promise<LeasedRun> {
  const taken = await ports.store.runs.takeLease(runId, ttlMs);
  if (taken.kind === 'nothing') return taken;
  publishEvents(ports.bus, taken.events);
  if (taken.kind === 'leased') {
    const { snapshot, trace, queuedMs } = taken;
    return { kind: 'leased', snapshot, trace, queuedMs };
  }
  await terminateRun(ports, {
    ending: endingOf(taken.snapshot),
    token: taken.snapshot.attempt,
    end: runEnd('crash_loop', {
      message: 'The run was given up: 5 attempts in a row ended without any progress.',
      by: 'host',
    }),
  });
  return { kind: 'nothing' };
}

/** What `onRunEnd` is told of a run held under a snapshot. */
export function endingOf(snapshot: RunSnapshot): EndingRun {
  return {
    tenantId: snapshot.tenantId,
    sessionId: snapshot.sessionId,
    runId: snapshot.runId,
    status: 'running',
    attempt: snapshot.attempt,
    principal: snapshot.principal,
    scratchpad: snapshot.scratchpad,
    metadata: snapshot.metadata,
  };
}
