import { type Span, TraceFlags, trace } from '@opentelemetry/api';
import { BucketExemplars } from './bucket-exemplars.js';

const span = (n: number, traceFlags = TraceFlags.SAMPLED): Span =>
  trace.wrapSpanContext({ traceId: `${n}`.repeat(32), spanId: `${n}`.repeat(16), traceFlags });

let exemplars: BucketExemplars;
beforeEach(() => {
  jest.useFakeTimers({ now: 1_700_000_000_250 });
  exemplars = new BucketExemplars('codedock.some.duration', [0.1, 1]);
});
afterEach(() => jest.useRealTimers());

function written(): Record<string, string> {
  const into = new Map<string, string>();
  exemplars.write(into);
  return Object.fromEntries(into);
}

test('each bucket keeps the newest measurement that was made in a sampled span', () => {
  exemplars.keep(0.1, { gate: 'g', outcome: 'a b' }, span(1));
  exemplars.keep(0.05, { gate: 'g', outcome: 'a b' }, span(2));
  exemplars.keep(0.5, { gate: 'g', outcome: 'a b' }, span(3));
  exemplars.keep(7, {}, span(4));
  const at = 1_700_000_000.25;
  expect(written()).toEqual({
    'codedock_some_duration_bucket{gate="g",outcome="a b",le="0.1"}': `# {trace_id="${'2'.repeat(32)}",span_id="${'2'.repeat(16)}"} 0.05 ${at}`,
    'codedock_some_duration_bucket{gate="g",outcome="a b",le="1"}': `# {trace_id="${'3'.repeat(32)}",span_id="${'3'.repeat(16)}"} 0.5 ${at}`,
    'codedock_some_duration_bucket{le="+Inf"}': `# {trace_id="${'4'.repeat(32)}",span_id="${'4'.repeat(16)}"} 7 ${at}`,
  });
});

test('what nobody samples leaves nothing', () => {
  exemplars.keep(0.1, {}, undefined);
  exemplars.keep(0.1, {}, span(1, TraceFlags.NONE));
  expect(written()).toEqual({});
});

test('keeps exemplars of 500 series at most', () => {
  for (let n = 0; n < 600; n += 1) exemplars.keep(0.1, { tool: `${n}` }, span(1));
  expect(Object.keys(written())).toHaveLength(500);
});
