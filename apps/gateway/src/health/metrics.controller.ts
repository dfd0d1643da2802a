import type { Telemetry } from '@codedock/platform';
import { Controller, Inject, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { Endpoint } from '../http/endpoint.js';
import { notFound } from '../http/validation.js';

/** Injection token of the handler that answers in the Prometheus format; undefined when telemetry is off. */
export const METRICS_HANDLER = Symbol('MetricsHandler');

/** What Prometheus scrapes. */
@Controller()
export class MetricsController {
  constructor(@Inject(METRICS_HANDLER) private readonly handler: Telemetry['metricsHandler']) {}

  @Endpoint('GET', 'metrics', {
    summary: 'Metrics in the Prometheus format, or as OpenMetrics where the Accept header asks for it',
    tag: 'Service',
    scopes: [],
    answers: { 200: { description: 'All metrics.', mediaType: 'text/plain' } },
  })
  get(@Res() reply: FastifyReply): void {
    if (this.handler === undefined) throw notFound('metrics endpoint', 'address; telemetry is switched off');
    reply.hijack();
    this.handler(reply.request.raw, reply.raw);
  }
}
