import type { TraceContext } from '@codedock/domain';
import { context, propagation } from '@opentelemetry/api';

/** The trace context of the request being served; empty when nothing traces. */
export function traceOf(): TraceContext {
  const carrier: { traceparent?: string; tracestate?: string } = {};
  propagation.inject(context.active(), carrier);
  return carrier;
}
