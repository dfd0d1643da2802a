import type { RunSnapshot } from '@codedock/domain';
import { carrierOf } from '@codedock/platform';
import { AttemptTrace } from './attempt-trace.js';

const origin = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
const attempt = (number: number, runs: 'link' | 'child' = 'link') =>
  new AttemptTrace({
    snapshot: { runId: 'r', sessionId: 's', attempt: number, elapsedMs: 0 } as RunSnapshot,
    origin,
    runs,
    tookOver: false,
  });

describe('the trace of an attempt', () => {
  it('is one of its own, linked to the request', () => {
    expect(attempt(1).span).toMatchObject({ root: true, links: [origin] });
  });

  it('is part of the request where that is configured, and only for the first attempt', () => {
    const first = attempt(1, 'child').span;
    expect(first).toMatchObject({ parent: origin, ids: { traceId: 'a'.repeat(32) } });
    expect(first.links).toBeUndefined();
    expect(attempt(2, 'child').span).toMatchObject({ root: true, links: [origin, expect.anything()] });
  });

  it.each(['link', 'child'] as const)('is linked to the attempt before it (%s)', (runs) => {
    const { ids } = attempt(1, runs).span;
    if (ids === undefined) throw new Error('an attempt has ids');
    expect(attempt(2, runs).span.links).toEqual([origin, carrierOf(ids)]);
  });

  it('gives every turn of every attempt ids of its own in the trace of the attempt', () => {
    const ids = [attempt(1).turnIds(1), attempt(1).turnIds(2), attempt(2).turnIds(1)];
    expect(new Set(ids.map(({ spanId }) => spanId)).size).toBe(3);
    expect(ids[0]?.traceId).toBe(attempt(1).span.ids?.traceId);
    expect(attempt(2).turnIds(1, 1)).toEqual(ids[0]);
  });
});
