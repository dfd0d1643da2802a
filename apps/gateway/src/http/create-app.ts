import 'reflect-metadata';
import { type Logger, NestLogger } from '@codedock/platform';
import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { type AppParts, appModule } from '../app.module.js';
import { type Authority, authorizeRequests } from '../auth/auth.hook.js';
import type { RequestRate } from '../limits/request-rate.js';
import type { RequestsInFlight } from '../limits/requests-in-flight.js';
import { nameSpans } from '../telemetry/route-spans.js';
import { acceptJsonOnly } from './json-body.js';
import { ProblemFilter } from './problem.filter.js';
import { httpServer, nameRequests } from './server.js';
import { validateRequests } from './validation.js';

/** Headers of answers that pages of other origins may read. */
const EXPOSED_HEADERS = ['x-request-id', 'retry-after', 'idempotency-replayed', 'etag'];
const CORS_METHODS = ['GET', 'POST', 'PUT', 'DELETE'];
const PREFLIGHT_SECONDS = 600;

export interface HttpOptions {
  readonly parts: AppParts;
  readonly authority: Authority;
  readonly limits: { readonly inFlight: RequestsInFlight; readonly rate: RequestRate };
  readonly corsOrigins: readonly string[];
  readonly logger: Logger;
}

/**
 * The HTTP application, not listening yet. The order of its steps is the order in which a request meets them: named,
 * refused while draining or while too much is in flight, authorised, counted, its body read, validated, served.
 */
export async function createHttpApp({
  parts,
  authority,
  limits,
  corsOrigins,
  logger,
}: HttpOptions): Promise<NestFastifyApplication> {
  const adapter = httpServer(logger);
  const server = adapter.getInstance();
  parts.routes.watch(server);
  nameRequests(server);
  nameSpans(server);
  const app = await NestFactory.create<NestFastifyApplication>(appModule(parts), adapter, {
    bodyParser: false,
    logger: new NestLogger(logger.child({}, { level: 'warn' })),
    abortOnError: false,
  });
  if (corsOrigins.length > 0) {
    app.enableCors({
      origin: [...corsOrigins],
      methods: CORS_METHODS,
      exposedHeaders: EXPOSED_HEADERS,
      maxAge: PREFLIGHT_SECONDS,
    });
  }
  parts.drain.guard(server);
  limits.inFlight.guard(server);
  authorizeRequests(server, authority);
  limits.rate.guard(server);
  acceptJsonOnly(server);
  validateRequests(server);
  app.useGlobalFilters(new ProblemFilter(parts.routes, logger));
  await app.init();
  return app;
}
