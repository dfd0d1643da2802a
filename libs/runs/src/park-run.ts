import type { LeaveBatch, Left } from '@codedock/store';
import { afterCommit } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** A run that waits for a person: `to.kind` is `waiting_approval`. */
export type ParkRun = Omit<LeaveBatch, 'to'> & { readonly to: Extract<LeaveBatch['to'], { kind: 'waiting_approval' }> };

/**
 * Parks a run for approval: calls awaiting, approval stored, lease and slot given up, one transaction; then publishes
 * and rings whoever took the slot. Throws lease_lost.
 */
export async function parkRun(
  ports: Pick<RunPorts, 'store' | 'bus' | 'doorbell' | 'report'>,
  batch: ParkRun,
): Promise<Left> {
  const left = await ports.store.runs.leave(batch);
  await afterCommit(ports, { events: [...left.events, ...left.otherEvents], rings: left.rings });
  return left;
}
