import { AppError } from '@codedock/domain';
import type { FastifyInstance } from 'fastify';
import { MAX_BODY_BYTES } from '../http/json-body.js';

/** Bytes of bodies that are being read or worked on at the same time. */
const MAX_BYTES = 64 * 1024 * 1024;
const WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/**
 * Bounds what requests that create something hold in memory: how many there are, and the bytes of their bodies. What is
 * over it is refused before a byte of its body is read and before anybody is asked about its key.
 */
export class RequestsInFlight {
  private count = 0;
  private bytes = 0;

  constructor(private readonly max: number) {}

  guard(server: FastifyInstance): void {
    server.addHook('onRequest', async (request, reply) => {
      const scopes = request.routeOptions.config.endpoint?.scopes ?? [];
      if (scopes.length === 0 || !WITH_BODY.has(request.method)) return;
      const bytes = bodyBytes(request.headers['content-length']);
      if (this.count >= this.max || this.bytes + bytes > MAX_BYTES) {
        throw new AppError('rate_limited', 'This gateway works on as many requests as it can hold; send it again.', {
          retryAfterMs: 1_000,
        });
      }
      this.count += 1;
      this.bytes += bytes;
      reply.raw.once('close', () => {
        this.count -= 1;
        this.bytes -= bytes;
      });
    });
  }
}

/** What a body may take: as announced, else as much as any may. A larger one is refused as such. */
function bodyBytes(announced: string | undefined): number {
  const bytes = Number(announced ?? MAX_BODY_BYTES);
  return Number.isFinite(bytes) ? Math.min(Math.max(bytes, 0), MAX_BODY_BYTES) : MAX_BODY_BYTES;
}
