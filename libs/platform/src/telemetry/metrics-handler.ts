import type { IncomingMessage, ServerResponse } from 'node:http';
import { diag } from '@opentelemetry/api';
import { type PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { exemplarsBySample } from './metrics.js';
import { OPEN_METRICS, openMetrics, prefersOpenMetrics } from './open-metrics.js';

/** Answers /metrics: as OpenMetrics with exemplars for who asks for it, else in the Prometheus text format. */
export function metricsHandler(
  exporter: PrometheusExporter,
): (request: IncomingMessage, response: ServerResponse) => void {
  const serializer = new PrometheusSerializer(undefined, false, undefined, false, true);
  return (request, response) => {
    if (!prefersOpenMetrics(request.headers.accept)) {
      exporter.getMetricsRequestHandler(request, response);
      return;
    }
    exporter.collect().then(
      ({ resourceMetrics, errors }) => {
        if (errors.length > 0) diag.error('metrics could not all be collected', ...errors);
        response.writeHead(200, { 'content-type': `${OPEN_METRICS}; version=1.0.0; charset=utf-8` });
        response.end(openMetrics(serializer.serialize(resourceMetrics), exemplarsBySample()));
      },
      (error: unknown) => {
        diag.error('metrics could not be collected', error);
        response.writeHead(500).end();
      },
    );
  };
}
