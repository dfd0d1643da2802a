import { createServer, type Server } from 'node:http';
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

beforeEach(async () => {
  spans = [];
  answers = true;
  collector = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    if (!answers) {
      return;
    }
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
    (async () => { ${script}; const before = Date.now(); await telemetry.shutdown(); console.log('ended ' + (Date.now() - before)); process.exit(0); })();`;
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
    http.get({ port: server.address().port, host: '127.0.0.1', path: '/v1/runs' }, (response) => {
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
  const script = `const begin = Date.now(); for (let n = 0; n < 5000; n += 1) { await platform.withSpan('turn', {}, () => n); } console.log('worked ' + (Date.now() - begin))`;
  const running = await startProcess(program(script, { OTEL_EXPORTER_OTLP_ENDPOINT: await url() }));
  expect(await running.exited).toEqual({ code: 0, signal: null });
  expect(Number(/worked (\d+)/.exec(running.output())?.[1])).toBeLessThan(5_000);
  expect(Number(/ended (\d+)/.exec(running.output())?.[1])).toBeLessThan(4_500);
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
