import type { NewLedgerEvent } from '@codedock/domain';
import type { Changes } from '@codedock/store';

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
    ...list('turns', a.turns, b.turns),
    ...list('calls', a.calls, b.calls),
    ...list('executions', a.executions, b.executions),
    ...list('records', a.records, b.records),
    ...(run === undefined ? {} : { run }),
  };
}

function list<K extends string, T>(name: K, a: readonly T[] = [], b: readonly T[] = []): { [P in K]?: readonly T[] } {
  return (a.length + b.length === 0 ? {} : { [name]: [...a, ...b] }) as unknown as { [P in K]?: readonly T[] };
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
