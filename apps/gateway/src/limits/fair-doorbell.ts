import type { Doorbell } from '@codedock/domain';

/** After this time a sweep has counted the tenant's runs, even where it found as many as before, milliseconds. */
const SWEPT_MS = 2_000;
/** Tenants remembered before those that have been quiet are forgotten. */
const MANY_TENANTS = 10_000;

interface Uncounted {
  /** Runs in flight as they were counted last. */
  readonly inFlight: number;
  readonly since: number;
  /** Runs rung since then. */
  runs: number;
}

/**
 * Counts what each tenant has sent lately. Runs in flight of a tenant without a cap are counted once a second only, since
 * a counter on its row would make its requests wait for each other; within that second all its runs would get the same
 * place in the queue, and a flood would be through before anybody else's second run.
 */
export class FairDoorbell {
  private readonly uncounted = new Map<string, Uncounted>();

  constructor(private readonly now: () => number) {}

  /** A doorbell for one run of a tenant: it rings the later the more of the tenant's runs are not counted yet. */
  of(tenantId: string, doorbell: Doorbell): Doorbell {
    return {
      ring: (ring) => doorbell.ring({ ...ring, priority: ring.priority + this.before(tenantId, ring.priority) }),
      waiting: () => doorbell.waiting(),
      waits: (ring) => doorbell.waits(ring),
    };
  }

  /** Runs of the tenant rung since its runs in flight were counted. */
  private before(tenantId: string, inFlight: number): number {
    const now = this.now();
    const known = this.uncounted.get(tenantId);
    if (known !== undefined && known.inFlight === inFlight && now - known.since < SWEPT_MS) {
      known.runs += 1;
      return known.runs - 1;
    }
    if (this.uncounted.size >= MANY_TENANTS) this.forgetQuiet(now);
    this.uncounted.set(tenantId, { inFlight, since: now, runs: 1 });
    return 0;
  }

  private forgetQuiet(now: number): void {
    for (const [tenantId, { since }] of this.uncounted) if (now - since >= SWEPT_MS) this.uncounted.delete(tenantId);
  }
}
