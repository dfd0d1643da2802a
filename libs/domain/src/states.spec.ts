import fc from 'fast-check';
import { isActive, isTerminal, mayTransition, RUN_STATUSES, runEnd, STOP_REASONS, statusOf } from './run.js';
import { isFinalCall, mayMoveCall, TOOL_CALL_STATES } from './tool-call.js';

const TERMINAL = ['completed', 'failed', 'cancelled', 'timed_out', 'blocked'];

describe('run states', () => {
  it('knows exactly the allowed ways', () => {
    const ways = RUN_STATUSES.flatMap((from) =>
      RUN_STATUSES.filter((to) => mayTransition(from, to)).map((to) => `${from} ${to}`),
    );
    const endings = (from: string, ...states: string[]) => states.map((to) => `${from} ${to}`);
    expect(ways.sort()).toEqual(
      [
        ...endings('pending', 'queued', 'cancelled', 'failed', 'timed_out', 'blocked'),
        ...endings('queued', 'running', 'cancelled', 'failed', 'timed_out', 'blocked'),
        ...endings('running', 'queued', 'waiting_approval', ...TERMINAL),
        ...endings('waiting_approval', 'queued', 'cancelled', 'failed', 'timed_out', 'blocked'),
      ].sort(),
    );
  });

  it('keeps a terminal run terminal', () => {
    for (const status of RUN_STATUSES) {
      expect([status, isTerminal(status)]).toEqual([status, TERMINAL.includes(status)]);
      if (isTerminal(status)) expect(RUN_STATUSES.some((to) => mayTransition(status, to))).toBe(false);
    }
  });

  it('reaches an end from everywhere, and only a running run completes', () => {
    const reachable = (from: (typeof RUN_STATUSES)[number], seen = new Set<string>()): Set<string> => {
      for (const to of RUN_STATUSES) {
        if (!mayTransition(from, to) || seen.has(to)) continue;
        seen.add(to);
        reachable(to, seen);
      }
      return seen;
    };
    for (const status of RUN_STATUSES.filter((from) => !isTerminal(from))) {
      expect([...reachable(status)]).toEqual(expect.arrayContaining(TERMINAL));
      if (status !== 'running') expect(mayTransition(status, 'completed')).toBe(false);
    }
  });

  it('counts a session as busy for queued, running and waiting runs only', () => {
    expect(RUN_STATUSES.filter(isActive)).toEqual(['queued', 'running', 'waiting_approval']);
  });

  it('gives every stop reason one state', () => {
    const reasons = Object.values(STOP_REASONS).flat();
    expect(new Set(reasons).size).toBe(reasons.length);
    for (const reason of reasons) expect(STOP_REASONS[statusOf(reason)]).toContain(reason);
    expect(runEnd('gate_timeout', { by: 'host' })).toEqual({
      status: 'blocked',
      stopReason: 'gate_timeout',
      by: 'host',
    });
    expect(() => statusOf('bored' as never)).toThrow(RangeError);
  });
});

describe('tool call states', () => {
  it('never leaves a final state by itself', () => {
    for (const state of ['failed', 'blocked', 'skipped', 'denied', 'succeeded', 'cancelled'] as const) {
      expect(TOOL_CALL_STATES.filter((to) => mayMoveCall(state, to))).toEqual([]);
    }
    expect(TOOL_CALL_STATES.filter(isFinalCall).sort()).toEqual(
      ['blocked', 'cancelled', 'denied', 'failed', 'skipped', 'succeeded', 'unknown'].sort(),
    );
  });

  it('executes nothing that waits for a person, and cancels nothing that is executing', () => {
    expect(mayMoveCall('awaiting_approval', 'executing')).toBe(false);
    expect(mayMoveCall('denied', 'executing')).toBe(false);
    expect(mayMoveCall('blocked', 'executing')).toBe(false);
    expect(mayMoveCall('executing', 'cancelled')).toBe(false);
    expect(mayMoveCall('executing', 'unknown')).toBe(true);
  });

  it('goes through executing before a success, whatever the way', () => {
    const states = fc.constantFrom(...TOOL_CALL_STATES);
    fc.assert(
      fc.property(fc.array(states, { maxLength: 8 }), (steps) => {
        let state: (typeof TOOL_CALL_STATES)[number] = 'proposed';
        let executed = false;
        for (const next of steps) {
          if (!mayMoveCall(state, next)) continue;
          state = next;
          if (state === 'executing') executed = true;
          if (state === 'succeeded') expect(executed).toBe(true);
        }
      }),
    );
  });
});
