import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { eventually, expectNoLeftovers, nodeTypeScript, startProcess } from '@codedock/testkit';

interface ExportedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly links?: readonly { readonly traceId: string }[];
  readonly status: { readonly code?: number; readonly message?: string };
}

let collector: Server;
let collectorUrl: string;
let spans: ExportedSpan[];
let answers: boolean;
let pushed: Buffer[];

beforeEach(async () => {
  spans = [];
  answers = true;
  pushed = [];
  collector = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    if (!answers) {
      return;
    }
    if (request.url === '/v1/metrics') pushed.push(Buffer.concat(chunks));
    if (request.url === '/v1/traces') {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as {
        resourceSpans: { scopeSpans: { spans: ExportedSpan[] }[] }[];
      };
      spans.push(...body.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
    }
    response.end('{}');
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  collectorUrl = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
});
afterEach(
  () =>
    new Promise((resolve) => {
      collector.close(resolve);
      collector.closeAllConnections();
    }),
);
afterAll(() => expectNoLeftovers());

const platform = JSON.stringify(path.resolve(__dirname, '../index.ts'));

function program(script: string, env: Record<string, string>) {
  const { command, args } = nodeTypeScript('none');
  const whole = `
    const platform = require(${platform});
    const logger = platform.createLogger({ app: 'x', level: 'info', format: 'json' });
    const telemetry = platform.startTelemetry({ service: 'gateway', version: '1', logger });
    (async () => { ${script}; await telemetry.shutdown(); process.exit(0); })();`;
  return {
    command,
    args: [...args.slice(0, 2), '-e', whole],
    env: { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_METRICS_EXPORTER: 'none', ...env },
  };
}

const REQUEST_AND_RUN = `
  const http = require('node:http');
  const server = http.createServer(async (request, response) => {
    const carrier = await platform.withSpan('run enqueue', {}, () => platform.activeTrace());
    response.end(JSON.stringify(carrier));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const carrier = await platform.withSpan('client', {}, () => new Promise((resolve, reject) => {
    http.get({ port: server.address().port, host: '127.0.0.1', path: '/v1/runs/events?after=3&token=cdk_stream_hunter3' }, (response) => {
      let text = ''; response.on('data', (chunk) => { text += chunk; }).on('end', () => resolve(JSON.parse(text)));
    }).on('error', reject);
  }));
  await platform.withSpan('run execute', { root: true, links: [carrier] }, async () => {
    await platform.withSpan('turn 1', {}, async () => { throw Object.assign(new Error('cannot reach redis://:hunter2@q'), { code: 'queue_unavailable' }); }).catch(() => {});
  });
  server.close()`;

test('one trace from client over HTTP to the queue, the run is linked, failures carry no secret', async () => {
  const running = await startProcess(program(REQUEST_AND_RUN, { OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl }));
  expect(await running.exited).toEqual({ code: 0, signal: null });
  await eventually(() => expect(spans.map(({ name }) => name)).toEqual(expect.arrayContaining(['run execute'])));
  expect(JSON.stringify(spans)).toContain('after=3');
  expect(JSON.stringify(spans)).not.toContain('hunter3');
  const named = (name: string) => spans.find((span) => span.name === name);
  const client = named('client');
  const enqueue = named('run enqueue');
  expect(enqueue?.traceId).toBe(client?.traceId);
  const served = spans.find(({ spanId }) => spanId === enqueue?.parentSpanId);
  expect(served?.kind).toBe(2); // SERVER
  const execute = named('run execute');
  expect(execute?.traceId).not.toBe(client?.traceId);
  expect(execute?.links?.[0]?.traceId).toBe(client?.traceId);
  expect(named('turn 1')).toMatchObject({
    parentSpanId: execute?.spanId,
    status: { code: 2, message: 'cannot reach redis://:[redacted]@q' },
  });
});

test.each([
  ['absent', async () => 'http://127.0.0.1:1'],
  [
    'silent',
    async () => {
      answers = false;
      return collectorUrl;
    },
  ],
])('a collector that is %s neither fails nor holds up the program', async (_, url) => {
  const script = `for (let n = 0; n < 5000; n += 1) { await platform.withSpan('turn', {}, () => n); } console.log('worked')`;
  // An export may take longer than any test: a program that waits for one never gets to its end.
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: await url(), OTEL_EXPORTER_OTLP_TIMEOUT: '600000' };
  const running = await startProcess(program(script, env));
  expect(await running.exited).toEqual({ code: 0, signal: null });
  expect(running.output()).toContain('worked');
});

test('metrics are pushed over OTLP as well where an endpoint is named', async () => {
  const running = await startProcess(
    program(`platform.metrics.runsQueued.set(7, {});`, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl,
      OTEL_METRICS_EXPORTER: 'otlp',
    }),
  );
  expect(await running.exited).toEqual({ code: 0, signal: null });
  await eventually(() => expect(Buffer.concat(pushed).includes('codedock.runs.queued')).toBe(true));
});

test('OTEL_SDK_DISABLED switches everything off', async () => {
  const running = await startProcess(
    program(`console.log('off', telemetry.traces, telemetry.metricsHandler)`, {
      OTEL_SDK_DISABLED: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl,
    }),
  );
  await running.exited;
  expect(running.output()).toContain('off false undefined');
  expect(spans).toEqual([]);
});

/** How many spans were dropped until now, by reason. */
const DROPPED = `
  const { ServerResponse } = require('node:http');
  const { Writable } = require('node:stream');
  const dropped = () => new Promise((resolve) => {
    let text = '';
    const response = new ServerResponse({ method: 'GET' });
    response.assignSocket(new Writable({ write(chunk, _, done) { text += chunk; done(); } }));
    response.once('finish', () => resolve(Object.fromEntries(
      [...text.matchAll(/^codedock_telemetry_spans_dropped_total\\{reason="(\\w+)"\\} (\\d+)$/gm)].map(([, reason, count]) => [reason, Number(count)]))));
    telemetry.metricsHandler({ headers: {} }, response);
  });`;

/** Emits more at once than the queue holds, waits for what the collector does to it, and prints how many were dropped. */
const FLOOD = `${DROPPED}
  const works = [];
  for (let n = 0; n < 1000; n += 1) works.push(platform.withSpan('turn', { attributes: { text: 'x'.repeat(1000) } }, () => n));
  await Promise.all(works);
  const sum = async () => { const all = await dropped(); return (all.queue_full ?? 0) + (all.export_failed ?? 0); };
  for (let n = 0; n < 600 && await sum() < EXPECTED; n += 1) await new Promise((resolve) => setTimeout(resolve, 50));
  console.log('dropped ' + JSON.stringify(await dropped()));`;

const LIMITS = {
  OTEL_BSP_MAX_QUEUE_SIZE: '100',
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '100',
  OTEL_BSP_SCHEDULE_DELAY: '50',
  OTEL_EXPORTER_OTLP_TIMEOUT: '300',
};

test.each<[string, RequestListener]>([
  ['never answers', (request) => void request.resume()],
  ['answers 500', (_, response) => void response.writeHead(500).end('no')],
  [
    'answers 503 and to come back in an hour',
    (_, response) => void response.writeHead(503, { 'retry-after': '3600' }).end(),
  ],
  ['resets', (request) => void request.socket.resetAndDestroy()],
  ['answers no HTTP', (request) => void request.socket.end('\u0000 garbage\r\n\r\n')],
  [
    'never stops answering',
    (_, response) => {
      response.writeHead(500);
      const more = setInterval(() => response.write('x'.repeat(1024 * 1024)), 1);
      response.on('close', () => clearInterval(more));
      response.on('error', () => undefined);
    },
  ],
])('what a collector that %s does not take is dropped from a bounded queue, and counted', async (_, behaviour) => {
  const hostile = createServer(behaviour);
  await new Promise<void>((resolve) => hostile.listen(0, '127.0.0.1', resolve));
  try {
    const endpoint = `http://127.0.0.1:${(hostile.address() as AddressInfo).port}`;
    const running = await startProcess(
      program(FLOOD.replace('EXPECTED', '1000'), { ...LIMITS, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }),
    );
    expect(await running.exited).toEqual({ code: 0, signal: null });
    const counted = JSON.parse(/dropped (.+)/.exec(running.output())?.[1] ?? '{}') as Record<string, number>;
    // Spans of one instant: at most one batch is being sent and one queue is full, the rest never waits anywhere.
    const { queue_full: full = 0, export_failed: refused = 0 } = counted;
    expect({ all: full + refused, bounded: refused <= 200 && full >= 800 }).toEqual({ all: 1_000, bounded: true });
    expect(running.output().match(/telemetry is not delivered/g)).toHaveLength(1);
  } finally {
    hostile.closeAllConnections();
    await new Promise((resolve) => hostile.close(resolve));
  }
});

/** Emits until three batches have failed, and prints how long that took. */
const LONG_FLOOD = `${DROPPED}
  const begin = performance.now();
  const emit = () => Promise.all(Array.from({ length: 100 }, () => platform.withSpan('turn', {}, () => undefined)));
  while ((await dropped()).export_failed < 300) { await emit(); await new Promise(setImmediate); }
  console.log('took ' + (performance.now() - begin));`;

test('a collector that refuses is left alone for longer each time', async () => {
  const refusing = createServer((_, response) => void response.writeHead(500).end('no'));
  await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
  try {
    const endpoint = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`;
    const running = await startProcess(program(LONG_FLOOD, { ...LIMITS, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }));
    expect(await running.exited).toEqual({ code: 0, signal: null });
    // A pause of 1 s after the first, of 2 s after the second; timers never end early by more than a millisecond.
    expect(Number(/took (\d+)/.exec(running.output())?.[1])).toBeGreaterThan(2_990);
  } finally {
    refusing.closeAllConnections();
    await new Promise((resolve) => refusing.close(resolve));
  }
});

/**
 * Emits 100 MB of spans, more until batches have ended in between, and prints what of the heap is still in use after it.
 */
const LARGE_FLOOD = `${DROPPED}
  require('node:v8').setFlagsFromString('--expose-gc');
  const gc = require('node:vm').runInNewContext('gc');
  const used = () => { gc(); return process.memoryUsage().heapUsed; };
  const emit = (count) => Promise.all(Array.from({ length: count }, () =>
    platform.withSpan('turn', { attributes: { text: Buffer.alloc(2000, 'x').toString('latin1') } }, () => undefined)));
  await emit(200);
  const atFirst = used();
  for (let n = 0; n < 50 || (await dropped()).export_failed < 200; n += 1) { await emit(1000); await new Promise(setImmediate); }
  console.log('grown ' + (used() - atFirst));`;

test('spans that a silent collector does not take use no memory beyond the queue', async () => {
  answers = false;
  const running = await startProcess(program(LARGE_FLOOD, { ...LIMITS, OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl }));
  expect(await running.exited).toEqual({ code: 0, signal: null });
  // Kept, the spans would be more than 100 MB.
  expect(Number(/grown (-?\d+)/.exec(running.output())?.[1])).toBeLessThan(64 * 1024 * 1024);
});

test('what a collector takes is not counted as dropped', async () => {
  const running = await startProcess(
    program(FLOOD.replace('EXPECTED', '800'), { ...LIMITS, OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl }),
  );
  expect(await running.exited).toEqual({ code: 0, signal: null });
  const counted = JSON.parse(/dropped (.+)/.exec(running.output())?.[1] ?? '{}') as Record<string, number>;
  expect(counted['export_failed']).toBe(0);
  await eventually(() => expect(spans).toHaveLength(1_000 - (counted['queue_full'] ?? 0)));
});
