import type { History } from './history.js';

/** What a violation counts as in the suite's result. `other` fails the case all the same. */
export type Harm = 'lost' | 'doubled' | 'stale_write' | 'sse_gap' | 'sse_dup' | 'other';

/** A broken promise: one sentence that names the row. */
export interface Violation {
  readonly harm: Harm;
  readonly what: string;
}

/** A promise of the product, judged from a history alone. */
export interface Invariant {
  /** `I1` … `I18`. */
  readonly id: string;
  readonly promise: string;
  check(history: History): readonly Violation[];
}

/** Rows by a key, in their order. */
export function groupedBy<T>(rows: readonly T[], keyOf: (row: T) => string | null): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const key = keyOf(row);
    if (key === null) continue;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  return groups;
}
