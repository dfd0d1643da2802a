import { afterCommit } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** Gives a run back to the queue: lease released, doorbell rung. False when the lease was no longer held. */
export async function handBackRun(
  ports: Pick<RunPorts, 'store' | 'bus' | 'doorbell' | 'report'>,
  runId: string,
  token: number,
): Promise<boolean> {
  const handed = await ports.store.runs.handBack(runId, token);
  if (handed === undefined) return false;
  await afterCommit(ports, { events: handed.events, rings: [handed.ring] });
  return true;
}
