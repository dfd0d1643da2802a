import type { EventRow, Recording } from './history.js';
import { groupedBy, type Invariant, type Violation } from './invariant.js';

/** I3: the numbers of a session are 1..n without a gap; what clients saw is the same sequence, each number once. */
export const numbersWithoutGap: Invariant = {
  id: 'I3',
  promise: 'the events of a session are 1..n, in the ledger and for every client',
  check({ sessions, events, recordings }) {
    const bySession = groupedBy(events, ({ sessionId }) => sessionId);
    const last = new Map(sessions.map(({ id, lastSeq }) => [id, lastSeq]));
    const violations = sessions.flatMap(({ id, lastSeq }) => ledgerGaps(id, lastSeq, bySession.get(id) ?? []));
    return [...violations, ...recordings.flatMap((recording) => clientGaps(recording, last.get(recording.sessionId)))];
  },
};

function ledgerGaps(sessionId: string, lastSeq: number, events: readonly EventRow[]): Violation[] {
  const seqs = events.map(({ seq }) => seq).sort((a, b) => a - b);
  const wrong = seqs.findIndex((seq, index) => seq !== index + 1);
  if (wrong !== -1) {
    return [{ harm: 'other', what: `session ${sessionId} has seq ${seqs[wrong]} where ${wrong + 1} belongs` }];
  }
  return seqs.length === lastSeq
    ? []
    : [{ harm: 'other', what: `session ${sessionId} counts ${lastSeq} events and has ${seqs.length}` }];
}

function clientGaps({ sessionId, frames, whole }: Recording, lastSeq: number | undefined): Violation[] {
  const violations: Violation[] = [];
  let seen = 0;
  for (const { seq, type } of frames) {
    if (seq <= seen) {
      violations.push({
        harm: 'sse_dup',
        what: `a client of session ${sessionId} saw ${type} (seq ${seq}) after ${seen}`,
      });
    } else if (seq > seen + 1) {
      violations.push({ harm: 'sse_gap', what: `a client of session ${sessionId} saw seq ${seq} after ${seen}` });
    }
    seen = Math.max(seen, seq);
  }
  if (whole && lastSeq !== undefined && seen < lastSeq) {
    violations.push({
      harm: 'sse_gap',
      what: `a client of session ${sessionId} saw nothing after ${seen} of ${lastSeq}`,
    });
  }
  return violations;
}

/** I4: every frame that a client saw is in the ledger, as it was shown. */
export const pushedIsStored: Invariant = {
  id: 'I4',
  promise: 'nothing is pushed that was not committed',
  check({ events, recordings }) {
    const stored = new Map(events.map((event) => [`${event.sessionId}/${event.seq}`, event]));
    return recordings.flatMap(({ sessionId, frames }) =>
      frames.flatMap(({ seq, eventId, type }): Violation[] => {
        const event = stored.get(`${sessionId}/${seq}`);
        if (event?.eventId === eventId && event.type === type) return [];
        const instead = event === undefined ? 'nothing' : event.type;
        return [
          { harm: 'other', what: `a client of session ${sessionId} saw ${type} as seq ${seq}; stored is ${instead}` },
        ];
      }),
    );
  },
};

/** I11: no row and no frame crosses tenants. */
export const tenantsStayApart: Invariant = {
  id: 'I11',
  promise: 'no row or frame crosses tenants',
  check({ sessions, runs, events, audit, recordings }) {
    const tenantOf = new Map(sessions.map(({ id, tenantId }) => [id, tenantId]));
    const foreign = (what: string, rows: readonly { readonly sessionId: string; readonly tenantId: string }[]) =>
      rows
        .filter(({ sessionId, tenantId }) => tenantOf.get(sessionId) !== tenantId)
        .map(
          ({ sessionId, tenantId }): Violation => ({
            harm: 'other',
            what: `${what} of session ${sessionId} belongs to tenant ${tenantId}`,
          }),
        );
    return [
      ...foreign('a run', runs),
      ...foreign('an event', events),
      ...foreign('an audit row', audit),
      ...foreign(
        'a client',
        recordings.filter(({ frames }) => frames.length > 0),
      ),
    ];
  },
};
