import { AppError } from '@codedock/domain';
import type { FastifyInstance } from 'fastify';

/** A tenant that was quiet may send what it may send in this time at once, milliseconds. */
const BURST_MS = 1_000;
/** Tenants remembered before those that have been quiet are forgotten. */
const MANY_TENANTS = 10_000;

export interface RequestRateOptions {
  /** Requests a second of a tenant without a rate of its own. */
  readonly perSecond: number;
  /** Monotonic, milliseconds. */
  readonly now: () => number;
}

/**
 * How many requests a tenant may send to this gateway: a token bucket that holds one second's worth, kept as the one
 * moment at which it will be full again (GCRA). Nothing is asked of anybody, so that several gateways let through that
 * many times as much.
 */
export class RequestRate {
  private readonly fullAt = new Map<string, number>();

  constructor(private readonly options: RequestRateOptions) {}

  /** Counts every request of a known caller; what needs no key, the probes among it, is never counted. */
  guard(server: FastifyInstance): void {
    server.addHook('onRequest', async ({ caller }) => {
      if (caller !== undefined) this.take(caller.tenantId, caller.requestsPerSecond);
    });
  }

  /** @throws AppError `rate_limited` with the time after which the next one is answered. */
  take(tenantId: string, perSecond: number = this.options.perSecond): void {
    const now = this.options.now();
    const fullAt = Math.max(now, this.fullAt.get(tenantId) ?? now) + 1_000 / perSecond;
    const early = fullAt - now - BURST_MS;
    // Sums of floating-point numbers miss whole numbers by a hair.
    if (early > 1e-6) {
      throw new AppError(
        'rate_limited',
        `The tenant sends more than ${perSecond} requests a second to this gateway; send it again later.`,
        { retryAfterMs: early },
      );
    }
    if (this.fullAt.size >= MANY_TENANTS) this.forgetQuiet(now);
    this.fullAt.set(tenantId, fullAt);
  }

  private forgetQuiet(now: number): void {
    for (const [tenantId, fullAt] of this.fullAt) if (fullAt <= now) this.fullAt.delete(tenantId);
  }
}
