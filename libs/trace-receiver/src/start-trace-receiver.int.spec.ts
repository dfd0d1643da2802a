import { gzipSync } from 'node:zlib';
import { spanForest } from './span-forest.js';
import { startTraceReceiver, type TraceReceiver } from './start-trace-receiver.js';

let receiver: TraceReceiver;
beforeEach(async () => {
  receiver = await startTraceReceiver({ mostSpans: 3 });
});
afterEach(() => receiver.close());

const TRACE = 'a'.repeat(32);
const span = (n: number, more: object = {}) => ({
  traceId: TRACE,
  spanId: String(n).padStart(16, '0'),
  name: `span ${n}`,
  startTimeUnixNano: `${1_700_000_000_000 + n}000000`,
  endTimeUnixNano: `${1_700_000_000_010 + n}500000`,
  ...more,
});
const bodyOf = (...spans: object[]) => ({
  resourceSpans: [
    {
      resource: { attributes: [{ key: 'service.name', value: { stringValue: 'codedock-runner' } }] },
      scopeSpans: [{ spans }],
    },
  ],
});
const post = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  fetch(`${receiver.url}/v1/traces`, { method: 'POST', body, headers: { connection: 'close', ...headers } });

test('reads spans, packed or not, and gives back the traces of a run', async () => {
  const inRun = { attributes: [{ key: 'codedock.run.id', value: { stringValue: 'r1' } }], status: { code: 2 } };
  await post(JSON.stringify(bodyOf(span(1, inRun), span(2, { parentSpanId: span(1).spanId }))));
  await post(gzipSync(JSON.stringify(bodyOf(span(3, { parentSpanId: 'f'.repeat(16) })))), {
    'content-encoding': 'gzip',
  });
  const found = (await (await fetch(`${receiver.url}/traces?run=r1`)).json()) as { spans: never[] };
  expect(found.spans).toHaveLength(3);
  expect(found.spans[0]).toMatchObject({ service: 'codedock-runner', startMs: 1_700_000_000_001, failed: true });
  expect(spanForest(found.spans)).toMatchObject([
    { span: { name: 'span 1' }, orphan: false, children: [{ span: { name: 'span 2' }, children: [] }] },
    { span: { name: 'span 3' }, orphan: true },
  ]);
  expect(await (await fetch(`${receiver.url}/traces?run=r2`)).json()).toEqual({ spans: [] });
});

test('keeps the newest spans only', async () => {
  for (const n of [1, 2, 3, 4, 5]) await post(JSON.stringify(bodyOf(span(n))));
  expect(receiver.spans().map(({ name }) => name)).toEqual(['span 3', 'span 4', 'span 5']);
});

test('refuses what is no JSON and takes what it does not need', async () => {
  expect((await post('\u0000protobuf')).status).toBe(400);
  expect((await post('{"resourceSpans": 7}')).status).toBe(200);
  expect(
    (await post(JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: 'x' }] }] }] }))).status,
  ).toBe(200);
  const metrics = await fetch(`${receiver.url}/v1/metrics`, { method: 'POST', body: 'anything' });
  expect(metrics.status).toBe(200);
  expect(receiver.spans()).toEqual([]);
});
