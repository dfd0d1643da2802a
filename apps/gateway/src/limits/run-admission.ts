import type { Doorbell, RunStatus } from '@codedock/domain';
import type { PendingLimits } from '@codedock/store';
import type { FairDoorbell } from './fair-doorbell.js';
import type { QueuePressure } from './queue-pressure.js';

/** What bounds the runs that this gateway takes. */
export class RunAdmission {
  constructor(
    private readonly pressure: QueuePressure,
    readonly pending: PendingLimits,
    private readonly fair: FairDoorbell,
  ) {}

  /** The doorbell for a run of a tenant. */
  doorbell(tenantId: string, doorbell: Doorbell): Doorbell {
    return this.fair.of(tenantId, doorbell);
  }

  /** @throws AppError `rate_limited` when the installation's queue is full. */
  check(): void {
    this.pressure.check();
  }

  /** Tells of a run that was created. */
  took({ status }: { readonly status: RunStatus }): void {
    if (status === 'queued') this.pressure.took();
  }
}
