import { isDeepStrictEqual } from 'node:util';
import { BUILT_IN_TOOLS } from '@codedock/domain';
import type { CallRow, History } from './history.js';
import { groupedBy, type Invariant, type Violation } from './invariant.js';

/** I6: an effectful tool acts at most once per call, and an intent without an outcome is told, never silently repeated. */
export const effectsAtMostOnce: Invariant = {
  id: 'I6',
  promise: 'an effectful call acts at most once; an intent without outcome is told as unknown',
  check(history) {
    const effects = groupedBy(history.effects, ({ callId }) => callId);
    const executions = groupedBy(history.executions, ({ callId }) => callId);
    const unknown = new Set(
      history.events.flatMap(({ type, payload }) =>
        type === 'tool.outcome_unknown' ? [String(payload['callId'])] : [],
      ),
    );
    const open = new Set(history.runs.filter(({ endedSeq }) => endedSeq === null).map(({ id }) => id));
    const known = new Set(history.calls.map(({ id }) => id));
    const foreign = [...effects.keys()]
      .filter((callId) => !known.has(callId))
      .map((callId): Violation => ({ harm: 'doubled', what: `an effect names the call ${callId}, which nobody made` }));
    return [
      ...foreign,
      ...history.calls.flatMap((call) => {
        const acted = effects.get(call.id) ?? [];
        const rows = executions.get(call.id) ?? [];
        const violations: Violation[] = [];
        const allowed = 1 + (history.retried.get(call.id) ?? 0);
        if (call.effect === 'effectful' && acted.length > allowed) {
          violations.push({ harm: 'doubled', what: `call ${call.id} (${call.name}) acted ${acted.length} times` });
        }
        if (call.effect === 'effectful' && rows.length > allowed) {
          violations.push({ harm: 'doubled', what: `call ${call.id} (${call.name}) was begun ${rows.length} times` });
        }
        for (const { attempt } of acted) {
          if (rows.every(({ n }) => n !== attempt)) {
            violations.push({
              harm: 'doubled',
              what: `call ${call.id} acted as execution ${attempt} without an intent`,
            });
          }
        }
        if (acted.some(({ idempotencyKey }) => idempotencyKey !== call.id)) {
          violations.push({ harm: 'doubled', what: `call ${call.id} acted under another key than its id` });
        }
        return [...violations, ...outcomeViolations(call, rows, unknown.has(call.id), open.has(call.runId))];
      }),
    ];
  },
};

/** The flagged calls are exactly those whose last execution has no outcome. */
function outcomeViolations(
  call: CallRow,
  rows: readonly { readonly n: number; readonly state: string }[],
  flagged: boolean,
  open: boolean,
): Violation[] {
  const without = rows.filter(({ state }) => state === 'executing');
  const last = [...rows].sort((a, b) => a.n - b.n).at(-1);
  if (without.length > 0 && !open && (call.effect === 'effectful' || call.state === 'executing')) {
    return [{ harm: 'other', what: `call ${call.id} has an intent, no outcome, and nobody was told` }];
  }
  if (last?.state === 'unknown' && call.effect === 'effectful' && !flagged) {
    return [{ harm: 'other', what: `call ${call.id} is unknown and no event says so` }];
  }
  if (flagged && rows.every(({ state }) => state !== 'unknown')) {
    return [{ harm: 'other', what: `call ${call.id} is told as unknown although its outcome is stored` }];
  }
  return [];
}

/** I7: nothing is executed without a gate's leave for exactly these arguments, and a person's where one was asked. */
export const executedWasAllowed: Invariant = {
  id: 'I7',
  promise: 'nothing is executed but what was allowed, with the arguments that were allowed',
  check({ calls, executions, effects, decisions }) {
    const executed = new Set(executions.map(({ callId }) => callId));
    const acted = groupedBy(effects, ({ callId }) => callId);
    const decided = groupedBy(decisions, ({ callId }) => callId);
    return calls
      .filter(({ id }) => executed.has(id))
      .flatMap((call): Violation[] => {
        if (call.digest === null || call.gateDecision === null) {
          return [{ harm: 'other', what: `call ${call.id} was executed and no gate's answer is stored` }];
        }
        const own = decided.get(call.id) ?? [];
        const approved = own.some(
          ({ decision, digest, editedDigest }) => decision === 'approve' && call.digest === (editedDigest ?? digest),
        );
        if (own.length > 0 && !approved) {
          return [{ harm: 'other', what: `call ${call.id} was executed otherwise than a person approved it` }];
        }
        return (acted.get(call.id) ?? [])
          .filter(({ args }) => !isDeepStrictEqual(args, call.arguments))
          .map(() => ({ harm: 'other', what: `call ${call.id} acted with other arguments than were gated` }));
      });
  },
};

/** I16: no plugin takes the name of a built-in tool, and none of those that a profile lists can be removed. */
export const builtInToolsStay: Invariant = {
  id: 'I16',
  promise: 'built-in tools are neither removed nor shadowed',
  check({ turns, runs }: History) {
    const builtIn = new Set<string>(BUILT_IN_TOOLS.map(({ name }) => name));
    const listed = new Map(runs.map(({ id, tools }) => [id, tools.filter((name) => builtIn.has(name))]));
    return turns.flatMap(({ id, runId, tools }): Violation[] => {
      const missing = (listed.get(runId) ?? []).filter((name) => !tools.includes(name));
      const twice = tools.filter((name, index) => tools.indexOf(name) !== index);
      return [
        ...missing.map((name): Violation => ({ harm: 'other', what: `turn ${id} was offered no ${name}` })),
        ...twice.map((name): Violation => ({ harm: 'other', what: `turn ${id} was offered ${name} twice` })),
      ];
    });
  },
};
