import type { Doorbell } from '@codedock/domain';

/** After this time a sweep has counted what the tenant had sent before, milliseconds. */
const SWEPT_MS = 2_000;
/** Tenants remembered before those that have been quiet are forgotten. */
const MANY_TENANTS = 10_000;

interface Place {
  /** Of the tenant's last run. */
  rank: number;
  readonly since: number;
}

/**
 * Gives each run of a tenant a place behind those it has sent lately. Runs in flight of a tenant without a cap are counted
 * once a second only, since a counter on its row would make its requests wait for each other; within that second all its
 * runs would get the same place in the queue, and a flood would be through before anybody else's second run. Requests that
 * are under way when a sweep counts bring the former number and the new one in any order, so a place never falls back
 * before the next sweep is certain.
 */
export class FairDoorbell {
  private readonly places = new Map<string, Place>();

  constructor(private readonly now: () => number) {}

  /** A doorbell for one run of a tenant: it rings the later the more of the tenant's runs are in flight or not counted yet. */
  of(tenantId: string, doorbell: Doorbell): Doorbell {
    return {
      ring: (ring) => doorbell.ring({ ...ring, priority: this.next(tenantId, ring.priority) }),
      waiting: () => doorbell.waiting(),
      waits: (ring) => doorbell.waits(ring),
    };
  }

  private next(tenantId: string, inFlight: number): number {
    const now = this.now();
    const known = this.places.get(tenantId);
    if (known !== undefined && now - known.since < SWEPT_MS) {
      known.rank = Math.max(inFlight, known.rank + 1);
      return known.rank;
    }
    if (this.places.size >= MANY_TENANTS) this.forgetQuiet(now);
    this.places.set(tenantId, { rank: inFlight, since: now });
    return inFlight;
  }

  private forgetQuiet(now: number): void {
    for (const [tenantId, { since }] of this.places) if (now - since >= SWEPT_MS) this.places.delete(tenantId);
  }
}
