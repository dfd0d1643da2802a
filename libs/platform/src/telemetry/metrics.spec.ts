import { type IncomingMessage, ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { TraceFlags, trace } from '@opentelemetry/api';
import { createLogger } from '../logging/index.js';
import { metrics } from './metrics.js';
import { startTelemetry, type Telemetry } from './start-telemetry.js';
import { activeTrace, withSpan } from './tracing.js';

const logger = createLogger({ app: 'test', level: 'silent', format: 'json' });
let telemetry: Telemetry;

beforeAll(() => {
  for (const name of Object.keys(process.env).filter((each) => each.startsWith('OTEL_'))) {
    delete process.env[name];
  }
  // Used before the SDK runs, as a module that loads early does.
  metrics.runsQueued.set(99, {});
  telemetry = startTelemetry({ service: 'test', version: '1.2.3', logger });
});
afterAll(() => telemetry.shutdown());

function scrape(accept?: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const response = new ServerResponse({ method: 'GET' } as IncomingMessage);
    const socket = new Writable({
      write(chunk, _, done) {
        text += String(chunk);
        done();
      },
    });
    response.assignSocket(socket as never);
    response.once('finish', () => resolve(text));
    telemetry.metricsHandler?.({ headers: { accept } } as IncomingMessage, response);
  });
}

test('metrics appear under the names that dashboards, alerts and autoscaling use', async () => {
  metrics.runsQueued.set(7, {});
  metrics.queueAge.set(1.5, {});
  metrics.pluginReady.set(1, { plugin: 'redact' });
  metrics.gateDuration.record(30, { gate: 'beforeInput', outcome: 'proceed' });
  metrics.gateDecisions.add(1, { gate: 'beforeToolCall', decision: 'block' });
  metrics.noticesDropped.add(1, { event: 'run.completed' });
  metrics.sseClients.add(2, {});
  metrics.sseClients.add(-1, {});
  const text = await scrape();
  expect(text).toMatch(/^codedock_runs_queued 7$/m);
  expect(text).toMatch(/^codedock_queue_age 1\.5$/m);
  expect(text).toMatch(/^codedock_plugin_ready\{plugin="redact"\} 1$/m);
  expect(text).toMatch(/^codedock_gate_duration_sum\{gate="beforeInput",outcome="proceed"\} 0\.03$/m);
  expect(text).toMatch(/^codedock_gate_duration_bucket\{gate="beforeInput",outcome="proceed",le="1\.9"\} 1$/m);
  expect(text).toMatch(/^codedock_gate_decisions_total\{gate="beforeToolCall",decision="block"\} 1$/m);
  expect(text).toMatch(/^codedock_plugin_notices_dropped_total\{event="run\.completed"\} 1$/m);
  expect(text).toMatch(/^codedock_sse_clients 1$/m);
  expect(text).not.toContain('process_command');
});

/** Upper limits of a histogram's buckets, in order. */
function bucketsOf(text: string, name: string): string[] {
  const found = text.matchAll(new RegExp(`^${name}_bucket\\{.*le="([^"]+)"\\} `, 'gm'));
  return [...found].map(([, limit = '']) => limit);
}

test('buckets lie where gates answer: from half a millisecond, close around the budget of 2 s', async () => {
  metrics.gateDuration.record(1, { gate: 'beforeInput', outcome: 'proceed' });
  metrics.pluginDuration.record(1, { plugin: 'redact', port: 'agent/input', outcome: 'continued' });
  metrics.eventAppend.record(1, {});
  metrics.queueWait.record(1, {});
  const text = await scrape();
  const budget = '0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 1.5 1.9 2 2.5 5 10 30 +Inf'.split(' ');
  expect(bucketsOf(text, 'codedock_gate_duration')).toEqual(budget);
  expect(bucketsOf(text, 'codedock_plugin_duration')).toEqual(budget);
  expect(bucketsOf(text, 'codedock_event_append_duration')).toEqual(
    '0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf'.split(' '),
  );
  expect(bucketsOf(text, 'codedock_queue_wait')).toEqual(
    '0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 300 600 1800 3600 14400 +Inf'.split(' '),
  );
});

test('who asks for OpenMetrics gets it, with the trace of the last slow one, and nobody else', async () => {
  const [traceId, spanId] = ['a'.repeat(32), 'b'.repeat(16)];
  const span = trace.wrapSpanContext({ traceId, spanId, traceFlags: TraceFlags.SAMPLED });
  metrics.gateDuration.record(1_950, { gate: 'beforeToolCall', outcome: 'block' }, span);
  metrics.gateDuration.record(1_960, { gate: 'beforeToolCall', outcome: 'block' });
  const text = await scrape('application/openmetrics-text; version=1.0.0');
  expect(text).toContain('content-type: application/openmetrics-text; version=1.0.0; charset=utf-8');
  expect(text).toMatch(
    new RegExp(
      `^codedock_gate_duration_bucket{gate="beforeToolCall",outcome="block",le="2"} 2 # {trace_id="${traceId}",span_id="${spanId}"} 1\\.95 \\d+(\\.\\d+)?$`,
      'm',
    ),
  );
  expect(text.match(/trace_id/g)).toHaveLength(1);
  expect(text).toMatch(/^# TYPE codedock_gate_decisions counter$/m);
  expect(text).toMatch(/\n# EOF\n/);
  expect(await scrape()).not.toContain('trace_id');
});

test('without an endpoint no span is made, and the work runs', async () => {
  expect(telemetry.traces).toBe(false);
  const result = await withSpan('run execute', {}, (span) => {
    expect(span.isRecording()).toBe(false);
    return activeTrace();
  });
  expect(result).toEqual({});
});
