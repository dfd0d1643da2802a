import { afterCommit } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** Recounts a tenant's runs in flight and admits its pending ones while slots are free. Returns how many were admitted. */
export async function admitRuns(
  ports: Pick<RunPorts, 'store' | 'bus' | 'doorbell' | 'report'>,
  tenantId: string,
): Promise<number> {
  const admitted = await ports.store.runs.admit(tenantId);
  await afterCommit(ports, admitted);
  return admitted.rings.length;
}
