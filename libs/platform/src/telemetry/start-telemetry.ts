import type { IncomingMessage, ServerResponse } from 'node:http';
import { type DiagLogger, DiagLogLevel, diag } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { GrpcInstrumentation } from '@opentelemetry/instrumentation-grpc';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { NodeSDK, resources, metrics as sdkMetrics } from '@opentelemetry/sdk-node';
import { readTelemetryRequest } from '../config/telemetry-environment.js';
import type { Logger } from '../logging/index.js';
import { captureContent } from './content.js';
import { metrics } from './metrics.js';
import { metricsHandler } from './metrics-handler.js';
import { spanProcessors } from './span-export.js';
import { SpanIdGenerator } from './span-ids.js';

/** Who sends the telemetry. */
export interface TelemetryOptions {
  /** `service.name`, unless OTEL_SERVICE_NAME is set. */
  readonly service: string;
  readonly version: string;
  readonly logger: Logger;
}

/** Running telemetry. */
export interface Telemetry {
  /** Whether spans are exported. */
  readonly traces: boolean;
  /** Answers /metrics, in the Prometheus format or as OpenMetrics; absent when telemetry is off. */
  readonly metricsHandler: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  /** Sends what is left, for at most 3 s. Never throws. */
  shutdown(): Promise<void>;
}

const SHUTDOWN_MS = 3_000;
const COMPLAINT_EVERY_MS = 60_000;
/** Health, streams that stay open for good, and what the services keep each other informed with. */
const UNTRACED_CALLS = [
  'Check',
  'Watch',
  'DispatchStream',
  'StartStream',
  'StreamStdio',
  'Bootstrap',
  'Shutdown',
  'GetDesired',
  'RecordPluginEvent',
] as const;
// Those of the instrumentation's own list, and stream tokens.
const SECRET_PARAMETERS = ['sig', 'Signature', 'AWSAccessKeyId', 'X-Goog-Signature', 'token'];
// Probes and scrapes would be most of the traces.
const UNTRACED_PATHS = new Set(['/healthz', '/readyz', '/metrics']);

/**
 * Starts OpenTelemetry as the OTEL_* variables ask. Metrics are always served; spans are made and exported only when
 * an endpoint or a trace exporter is named. Call it before anything that it instruments (Nest, grpc-js) is loaded.
 *
 * It cannot fail the program: an SDK that does not start is logged, exporters work in the background with a bounded
 * queue, and their complaints are logged at most once a minute.
 */
export function startTelemetry(options: TelemetryOptions): Telemetry {
  const request = readTelemetryRequest();
  if (request.disabled) {
    return OFF;
  }
  try {
    diag.setLogger(complaints(options.logger), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
    captureContent(request.spans !== undefined && request.content);
    const prometheus = new PrometheusExporter({ preventServerStart: true, withoutScopeInfo: true });
    const sdk = new NodeSDK({
      resource: resources.resourceFromAttributes({ 'service.version': options.version }),
      serviceName: request.serviceName ?? options.service,
      // Not the process detector: command lines may contain what should not leave the machine.
      resourceDetectors: [resources.envDetector, resources.hostDetector, resources.serviceInstanceIdDetector],
      metricReaders: [
        prometheus,
        ...(request.pushMetrics
          ? [new sdkMetrics.PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })]
          : []),
      ],
      // Sampler and limits are the SDK's, from OTEL_*; without a processor no spans are made at all.
      spanProcessors: request.spans ? spanProcessors(request.spans) : [],
      idGenerator: new SpanIdGenerator(),
      logRecordProcessors: [],
      instrumentations: request.spans ? instrumentations() : [],
    });
    sdk.start();
    if (request.spans) for (const reason of ['queue_full', 'export_failed']) metrics.spansDropped.add(0, { reason });
    return {
      traces: request.spans !== undefined,
      metricsHandler: metricsHandler(prometheus),
      shutdown: () => endWithin(sdk, options.logger),
    };
  } catch (error) {
    options.logger.error({ err: error }, 'telemetry did not start; going on without it');
    return OFF;
  }
}

const OFF: Telemetry = {
  traces: false,
  metricsHandler: undefined,
  shutdown: async () => undefined,
};

function instrumentations() {
  return [
    new HttpInstrumentation({
      ignoreIncomingRequestHook: ({ url }) => UNTRACED_PATHS.has(url?.split('?')[0] ?? ''),
      // Stream tokens are sent in the query.
      redactedQueryParamsServer: SECRET_PARAMETERS,
      redactedQueryParams: SECRET_PARAMETERS,
      // Outgoing calls without a span around them are the exporter's own or a probe.
      requireParentforOutgoingSpans: true,
    }),
    new GrpcInstrumentation({ ignoreGrpcMethods: [...UNTRACED_CALLS] }),
  ];
}

async function endWithin(sdk: NodeSDK, logger: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), SHUTDOWN_MS);
    });
    if ((await Promise.race([sdk.shutdown(), late])) === 'late') {
      logger.warn(`telemetry was not sent within ${SHUTDOWN_MS} ms; the rest is dropped`);
    }
  } catch (error) {
    logger.warn({ err: error }, 'telemetry could not be sent; the rest is dropped');
  } finally {
    clearTimeout(timer);
  }
}

function complaints(logger: Logger): DiagLogger {
  let last = Number.NEGATIVE_INFINITY;
  const complain = (message: string) => {
    const now = performance.now();
    if (now - last >= COMPLAINT_EVERY_MS) {
      last = now;
      logger.warn({ reason: message }, 'telemetry is not delivered');
    }
  };
  const nothing = () => undefined;
  return { error: complain, warn: complain, info: nothing, debug: nothing, verbose: nothing };
}
