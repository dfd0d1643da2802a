import { TERMINAL_EVENTS } from '@codedock/domain';
import type { EventRow, History, RunRow } from './history.js';
import { groupedBy, type Invariant, type Violation } from './invariant.js';

const END_TYPES = new Set<string>(Object.values(TERMINAL_EVENTS));
const TERMINAL = new Set<string>(Object.keys(TERMINAL_EVENTS));

/** I1: each accepted run ends in exactly one terminal state. */
export const acceptedRunsEnd: Invariant = {
  id: 'I1',
  promise: 'every accepted run ends',
  check({ accepted, runs }) {
    const known = new Map(runs.map((run) => [run.id, run]));
    const missing = accepted
      .filter((id) => !known.has(id))
      .map((id): Violation => ({ harm: 'lost', what: `run ${id} was accepted and is gone` }));
    const open = runs
      .filter(({ status }) => !TERMINAL.has(status))
      .map(({ id, status }): Violation => ({ harm: 'lost', what: `run ${id} is still ${status}` }));
    return [...missing, ...open];
  },
};

/** I2: exactly one terminal event per ended run, of the state's type, and nothing of the run behind it. */
export const oneTerminalEvent: Invariant = {
  id: 'I2',
  promise: 'a run has one end, and nothing after it',
  check({ runs, events }) {
    const byRun = groupedBy(events, ({ runId }) => runId);
    return runs.flatMap((run) => endViolations(run, byRun.get(run.id) ?? []));
  },
};

function endViolations(run: RunRow, events: readonly EventRow[]): Violation[] {
  const ends = events.filter(({ type }) => END_TYPES.has(type));
  if (!TERMINAL.has(run.status)) {
    return ends.map((end) => ({ harm: 'other', what: `run ${run.id} is ${run.status} and has the event ${end.type}` }));
  }
  const [end] = ends;
  if (end === undefined) return [{ harm: 'lost', what: `run ${run.id} is ${run.status} without a terminal event` }];
  const violations: Violation[] = [];
  if (ends.length > 1) {
    violations.push({ harm: 'doubled', what: `run ${run.id} has ${ends.length} terminal events` });
  }
  if (end.type !== TERMINAL_EVENTS[run.status as keyof typeof TERMINAL_EVENTS]) {
    violations.push({ harm: 'other', what: `run ${run.id} is ${run.status} and its end says ${end.type}` });
  }
  if (run.endedSeq !== end.seq) {
    violations.push({ harm: 'other', what: `run ${run.id} names seq ${run.endedSeq} as its end, which is ${end.seq}` });
  }
  const after = events.filter(({ seq, attempt }) => seq > end.seq && attempt !== null);
  for (const { seq, type } of after) {
    violations.push({ harm: 'stale_write', what: `${type} (seq ${seq}) was written after the end of run ${run.id}` });
  }
  return violations;
}

/** I5: no attempt writes once a later one has begun. */
export const noStaleWrites: Invariant = {
  id: 'I5',
  promise: 'no attempt writes once a later one holds the run',
  check({ runs, events, executions, calls }) {
    const violations: Violation[] = [];
    const byRun = groupedBy(events, ({ runId }) => runId);
    const tokens = new Map(runs.map(({ id, leaseToken }) => [id, leaseToken]));
    for (const [runId, own] of byRun) {
      let newest = 0;
      for (const { seq, type, attempt } of [...own].sort((a, b) => a.seq - b.seq)) {
        if (attempt === null) continue;
        if (attempt < newest || attempt > (tokens.get(runId) ?? 0)) {
          violations.push({
            harm: 'stale_write',
            what: `${type} (seq ${seq}) of run ${runId} was written by attempt ${attempt} after attempt ${newest}`,
          });
        }
        newest = Math.max(newest, attempt);
      }
    }
    const runOf = new Map(calls.map(({ id, runId }) => [id, runId]));
    for (const [callId, own] of groupedBy(executions, ({ callId }) => callId)) {
      const sorted = [...own].sort((a, b) => a.n - b.n);
      for (const [index, { n, attempt }] of sorted.entries()) {
        const before = sorted[index - 1];
        if (
          (before !== undefined && attempt < before.attempt) ||
          attempt > (tokens.get(runOf.get(callId) ?? '') ?? 0)
        ) {
          violations.push({
            harm: 'stale_write',
            what: `execution ${n} of call ${callId} was written by attempt ${attempt}, which no longer held the run`,
          });
        }
      }
    }
    return violations;
  },
};

/** I15: one idempotency key with one body leads to one run. */
export const oneRunPerKey: Invariant = {
  id: 'I15',
  promise: 'one idempotency key and one body give one run',
  check({ requests }) {
    return [
      ...groupedBy(requests, ({ tenantId, key, body }) => JSON.stringify([tenantId, key, body])).values(),
    ].flatMap((same) => {
      const ids = new Set(same.flatMap(({ runIds }) => runIds));
      return ids.size > 1
        ? [{ harm: 'doubled' as const, what: `idempotency key ${same[0]?.key} gave the runs ${[...ids].join(', ')}` }]
        : [];
    });
  },
};

/** I18: at most one run of a session is active: between its start and its end nothing of another run is executed. */
export const runsOfASessionDoNotOverlap: Invariant = {
  id: 'I18',
  promise: 'runs of one session never overlap',
  check({ events }) {
    const violations: Violation[] = [];
    for (const [sessionId, own] of groupedBy(events, (event) => event.sessionId)) {
      let active: string | null = null;
      for (const { seq, type, runId } of [...own].sort((a, b) => a.seq - b.seq)) {
        if (runId === null) continue;
        if (END_TYPES.has(type)) active = active === runId ? null : active;
        else if (type === 'run.started') {
          if (active !== null && active !== runId) {
            violations.push({
              harm: 'doubled',
              what: `run ${runId} began (seq ${seq} of session ${sessionId}) while run ${active} was active`,
            });
          }
          active = runId;
        } else if (active !== null && active !== runId && EXECUTES.has(type)) {
          violations.push({
            harm: 'doubled',
            what: `${type} (seq ${seq}) of run ${runId} lies inside the active run ${active} of session ${sessionId}`,
          });
        }
      }
    }
    return violations;
  },
};

const EXECUTES = new Set(['turn.started', 'assistant.delta', 'assistant.completed', 'tool.execution_started']);

/** I14: an input that a hook dealt with leaves no run, no message and no cancel. */
export const handledInputLeavesNothing: Invariant = {
  id: 'I14',
  promise: 'handled input creates and cancels nothing',
  check({ audit, runs }: History) {
    const handled = new Set(
      audit.flatMap(({ gate, outcome, requestId }) =>
        gate === 'beforeInput' && outcome === 'handled' && requestId !== null ? [requestId] : [],
      ),
    );
    return runs
      .filter(({ requestId }) => handled.has(requestId))
      .map(({ id, requestId }): Violation => ({ harm: 'other', what: `handled request ${requestId} has run ${id}` }));
  },
};
