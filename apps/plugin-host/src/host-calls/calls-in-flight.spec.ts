import { CallsInFlight } from './calls-in-flight.js';

const call = (sessionId: string, runId: string, capability: string, emitDepth = 0) => ({
  sessionId,
  runId,
  capability: Buffer.from(capability),
  emitDepth,
});

describe('authority of a call-back', () => {
  it('is that of the newest open call of the same session and run', () => {
    const calls = new CallsInFlight();
    const last = call('s', 'r2', 'third');
    for (const open of [call('s', 'r1', 'first'), call('other', 'r1', 'second'), last]) calls.begin(open);
    expect(String(calls.capabilityFor('s', ''))).toBe('third');
    expect(String(calls.capabilityFor('s', 'r1'))).toBe('first');
    expect(calls.capabilityFor('s', 'r9')).toBeUndefined();
    expect(calls.capabilityFor('unknown', '')).toBeUndefined();
    calls.end(last);
    expect(String(calls.capabilityFor('s', ''))).toBe('first');
  });

  it('does not exist in a call without a capability', () => {
    const calls = new CallsInFlight();
    calls.begin(call('s', '', ''));
    expect(calls.capabilityFor('s', '')).toBeUndefined();
  });

  it('counts how deep events lead to events', () => {
    const calls = new CallsInFlight();
    expect(calls.emitDepth()).toBe(1);
    calls.begin(call('s', '', '', 2));
    expect(calls.emitDepth()).toBe(3);
  });
});
