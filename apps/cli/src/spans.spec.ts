import type { ReceivedSpan } from '@codedock/trace-receiver';
import { spanWaterfall } from './spans.js';

const span = (n: number, parent: number | undefined, more: Partial<ReceivedSpan>): ReceivedSpan => ({
  traceId: 'a'.repeat(32),
  spanId: String(n).padStart(16, '0'),
  ...(parent === undefined ? {} : { parentSpanId: String(parent).padStart(16, '0') }),
  name: `span ${n}`,
  service: 'codedock-runner',
  startMs: 1_000 + n,
  endMs: 1_010 + n,
  attributes: {},
  links: [],
  failed: false,
  message: '',
  ...more,
});

test('draws spans as trees, and lets no name control the terminal', () => {
  const lines = spanWaterfall([
    span(2, 1, { service: 'codedock-plugin-host', attributes: { 'codedock.outcome': 'timeout' }, failed: true }),
    span(1, undefined, { name: 'run\u001b[31m execute' }),
  ]).split('\n');
  expect(lines[1]).toMatch(/^run \[31m execute +runner +10\.00/);
  expect(lines[2]).toMatch(/^ {2}span 2 +plugin-host +timeout +10\.00/);
});

test('says so when there is nothing', () => {
  expect(spanWaterfall([])).toBe('none');
});
