import { failureCodeOf, type HookRecord } from '@codedock/domain';
import type { AuditRow, History } from './history.js';
import { groupedBy, type Invariant, type Violation } from './invariant.js';

const REFUSALS = new Set(['blocked', 'aborted']);

function couldBeAsked({ outcome }: AuditRow): boolean {
  return failureCodeOf(outcome as HookRecord['outcome']) === undefined;
}

/** The questions of one gate about one thing in one attempt, each in the order in which hooks were asked. */
function questions(audit: readonly AuditRow[]): AuditRow[][] {
  const groups = groupedBy(audit, ({ gate, sessionId, runId, callId, requestId, attempt }) =>
    JSON.stringify([gate, sessionId, runId, callId, requestId, attempt]),
  );
  return [...groups.values()].map((rows) => [...rows].sort((a, b) => a.id - b.id));
}

/** I8: where a gate that may veto could not be asked, nothing went on. */
export const failedVetoBlocks: Invariant = {
  id: 'I8',
  promise: 'a gate that may veto and could not be asked blocks',
  check({ audit, executions }) {
    const begun = groupedBy(executions, ({ callId }) => callId);
    return questions(audit).flatMap((rows): Violation[] => {
      const last = rows.at(-1);
      if (last?.gate !== 'beforeToolCall' || last.callId === null || couldBeAsked(last)) return [];
      const went = (begun.get(last.callId) ?? []).filter(({ attempt }) => attempt === last.attempt);
      return went.map(() => ({
        harm: 'other',
        what: `call ${last.callId} was executed although ${last.hook} could not be asked (${last.outcome})`,
      }));
    });
  },
};

/** I9: hooks are asked in the order of the chain, and nobody after one that refused. */
export const hooksInOrder: Invariant = {
  id: 'I9',
  promise: 'hooks are asked in order, none after a refusal',
  check({ audit, chain }) {
    const place = new Map(chain.map(({ name }, index) => [name, index]));
    return questions(audit).flatMap((rows): Violation[] =>
      rows.flatMap((row, index): Violation[] => {
        const before = rows[index - 1];
        if (before === undefined || !REFUSALS.has(before.outcome)) return [];
        const [now, then] = [place.get(row.hook), place.get(before.hook)];
        return now !== undefined && then !== undefined && now > then
          ? [{ harm: 'other', what: `${row.hook} was asked at ${row.gate} after ${before.hook} had refused` }]
          : [];
      }),
    );
  },
};

/** I10: without plugins nothing is asked, and nothing in the ledger comes from one. */
export const noHooksNoTrace: Invariant = {
  id: 'I10',
  promise: 'without plugins the ledger is as if there were none',
  check({ chain, audit, events }: History) {
    if (chain.length > 0) return [];
    return [
      ...audit.map(({ hook, gate }): Violation => ({ harm: 'other', what: `${hook} was asked at ${gate}` })),
      ...events
        .filter(({ type }) => type === 'extension.event')
        .map(
          ({ seq, sessionId }): Violation => ({
            harm: 'other',
            what: `seq ${seq} of session ${sessionId} is an extension's event`,
          }),
        ),
    ];
  },
};

/** I12: who has not subscribed is not asked. */
export const unsubscribedIsNotAsked: Invariant = {
  id: 'I12',
  promise: 'a plugin is asked only at gates it subscribed to',
  check({ chain, audit }) {
    const gatesOf = new Map(chain.map(({ name, gates }) => [name, new Set(gates)]));
    return audit
      .filter(({ hook, gate }) => gatesOf.get(hook)?.has(gate) === false)
      .map(({ hook, gate }): Violation => ({ harm: 'other', what: `${hook} was asked at ${gate}` }));
  },
};
