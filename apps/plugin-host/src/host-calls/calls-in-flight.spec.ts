import { capabilitySigner } from '@codedock/plugin-bridge';
import { until } from '../../test/test-host.js';
import { CallsInFlight, type OpenCall } from './calls-in-flight.js';

const sign = capabilitySigner('a key of at least 32 bytes for this test');

const call = (session: string, run: string, expiresAt: number, more: Partial<OpenCall> = {}): OpenCall => ({
  sessionId: session,
  runId: run,
  capability: sign({ tenant: 't', session, run, subject: 'x', expiresAt }),
  emitDepth: 0,
  endsAt: performance.now() + 60_000,
  ...more,
});

describe('authority of a call-back', () => {
  it('is that of the open call of the same session and run, of several the one valid longest', () => {
    const calls = new CallsInFlight();
    const first = call('s', 'r1', 2_000);
    const longest = call('s', 'r2', 3_000);
    const latest = call('s', 'r2', 1_000);
    for (const open of [first, call('other', 'r1', 9_000), longest, latest]) calls.begin(open);
    expect(calls.authorityFor('s', '')).toBe(longest);
    expect(calls.authorityFor('s', 'r1')).toBe(first);
    expect(calls.authorityFor('s', 'r9')).toBeUndefined();
    expect(calls.authorityFor('unknown', '')).toBeUndefined();
    calls.end(longest);
    expect(calls.authorityFor('s', '')).toBe(first);
    expect(calls.authorityFor('s', 'r2')).toBe(latest);
  });

  it('does not exist in a call without a capability', () => {
    const calls = new CallsInFlight();
    calls.begin(call('s', '', 1, { capability: Buffer.alloc(0) }));
    expect(calls.authorityFor('s', '')).toBeUndefined();
  });

  it('of an event that nobody answers lasts as long as said, and nobody waits for it', async () => {
    const calls = new CallsInFlight();
    const told = call('s', 'r', 1, { endsAt: performance.now() + 500, emitDepth: 1 });
    calls.tell(told);
    expect(calls.size).toBe(0);
    expect(calls.authorityFor('s', 'r')).toBe(told);
    expect(calls.emitDepth()).toBe(2);
    await until(() => calls.authorityFor('s', 'r') === undefined);
  });

  it('counts how deep events lead to events', () => {
    const calls = new CallsInFlight();
    expect(calls.emitDepth()).toBe(1);
    calls.begin(call('s', '', 1, { emitDepth: 2 }));
    expect(calls.emitDepth()).toBe(3);
  });
});
