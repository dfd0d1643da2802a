import { AppError } from '@codedock/domain';
import type { FastifyInstance } from 'fastify';

/** Whether this process still takes requests. */
export class Drain {
  private draining = false;

  /** From now on every new request is answered with `shutting_down`. */
  begin(): void {
    this.draining = true;
  }

  /** @throws AppError `shutting_down` once draining has begun. */
  check(): void {
    if (this.draining)
      throw new AppError('shutting_down', 'This server is stopping; send the request again.', { retryAfterMs: 1_000 });
  }

  /** Refuses new requests while draining; the liveness probe still answers. */
  guard(server: FastifyInstance): void {
    server.addHook('onRequest', async (request) => {
      if (request.routeOptions.url !== '/healthz') this.check();
    });
  }
}
