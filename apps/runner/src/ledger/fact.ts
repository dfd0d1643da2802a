import type { NewLedgerEvent } from '@codedock/domain';
import type { CallChange, Changes, TurnChange } from '@codedock/store';

/** What one call of the ledger port stores: all of it or nothing. */
export interface Fact {
  readonly events: readonly NewLedgerEvent[];
  readonly changes: Changes;
}

/** Facts that go into one statement, in order. */
export function joined(facts: readonly Fact[]): { events: NewLedgerEvent[]; changes: Changes } {
  return {
    events: facts.flatMap(({ events }) => events),
    changes: facts.reduce<Changes>((all, { changes }) => joinedChanges(all, changes), {}),
  };
}

function joinedChanges(a: Changes, b: Changes): Changes {
  const run = joinedRun(a.run, b.run);
  return {
    ...list('messages', a.messages, b.messages),
    ...byId('turns', a.turns, b.turns, laterTurn),
    ...byId('calls', a.calls, b.calls, laterCall),
    ...list('executions', a.executions, b.executions),
    ...list('records', a.records, b.records),
    // A later checkpoint stands for all that an earlier one stood for.
    ...((b.checkpoint ?? a.checkpoint) === undefined ? {} : { checkpoint: b.checkpoint ?? a.checkpoint }),
    ...(run === undefined ? {} : { run }),
  };
}

function list<K extends string, T>(name: K, a: readonly T[] = [], b: readonly T[] = []): { [P in K]?: readonly T[] } {
  return (a.length + b.length === 0 ? {} : { [name]: [...a, ...b] }) as unknown as { [P in K]?: readonly T[] };
}

/** A statement changes each row once: later changes are laid over earlier ones. */
function byId<K extends string, T extends { readonly id: string }>(
  name: K,
  a: readonly T[] = [],
  b: readonly T[] = [],
  later: (earlier: T, change: T) => T,
): { [P in K]?: readonly T[] } {
  const rows = new Map<string, T>();
  for (const change of [...a, ...b]) {
    const earlier = rows.get(change.id);
    rows.set(change.id, earlier === undefined ? change : later(earlier, change));
  }
  return list(name, [...rows.values()]);
}

function laterTurn(earlier: TurnChange, change: TurnChange): TurnChange {
  const restarts = (earlier.restarts ?? 0) + (change.restarts ?? 0);
  return { ...earlier, ...change, ...(restarts === 0 ? {} : { restarts }) };
}

function laterCall(earlier: CallChange, change: CallChange): CallChange {
  const { expect, ...merged } = { ...earlier, ...change };
  // A seal that this very statement writes is not compared with the one that was stored before it.
  const written = earlier.gated;
  const same = expect !== undefined && written?.digest === expect.digest && written.gateVersion === expect.gateVersion;
  return expect === undefined || same ? merged : { ...merged, expect };
}

function joinedRun(a: Changes['run'], b: Changes['run']): Changes['run'] {
  if (a === undefined || b === undefined) return a ?? b;
  const usage =
    a.usage === undefined || b.usage === undefined
      ? (a.usage ?? b.usage)
      : {
          inputTokens: a.usage.inputTokens + b.usage.inputTokens,
          outputTokens: a.usage.outputTokens + b.usage.outputTokens,
        };
  const toolCalls = (a.toolCalls ?? 0) + (b.toolCalls ?? 0);
  return {
    ...a,
    ...b,
    ...(usage === undefined ? {} : { usage }),
    ...(toolCalls === 0 ? {} : { toolCalls }),
    ...(a.progress === true || b.progress === true ? { progress: true } : {}),
    ...list('scratchpad', a.scratchpad, b.scratchpad),
  };
}
