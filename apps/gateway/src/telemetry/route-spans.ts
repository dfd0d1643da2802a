import { trace } from '@opentelemetry/api';
import type { FastifyInstance } from 'fastify';

/** Names the span of every request by its route, which has no ids in it. */
export function nameSpans(server: FastifyInstance): void {
  server.addHook('onRequest', async (request) => {
    const span = trace.getActiveSpan();
    const route = request.routeOptions.url;
    if (span === undefined || route === undefined) return;
    span.updateName(`${request.method} ${route}`);
    span.setAttribute('http.route', route);
  });
}
