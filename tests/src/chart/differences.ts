import { stringify } from 'yaml';
import type { KubeObject } from './kubernetes/server-side-apply.js';

/**
 * How objects differ from a base, as text: new ones whole, changed ones by their changed lines. What a Secret holds is
 * made anew each time and is not shown; alerts and dashboards are files of others.
 */
export function differences(objects: readonly KubeObject[], base: readonly KubeObject[]): string {
  const compared = objects.filter((object) => !isCopy(object));
  const known = new Map(base.filter((object) => !isCopy(object)).map((object) => [idOf(object), linesOf(object)]));
  const parts: string[] = [];
  for (const object of compared) {
    const before = known.get(idOf(object));
    known.delete(idOf(object));
    const now = linesOf(object);
    if (before === undefined) parts.push(`# new: ${idOf(object)}`, ...now);
    else {
      const changed = changedLines(before, now);
      if (changed.length > 0) parts.push(`# changed: ${idOf(object)}`, ...changed);
    }
  }
  return [...parts, ...[...known.keys()].map((id) => `# gone: ${id}`)].join('\n');
}

function isCopy({ kind, metadata }: KubeObject): boolean {
  return kind === 'PrometheusRule' || (kind === 'ConfigMap' && metadata.name.includes('-dashboard-'));
}

function idOf({ kind, metadata }: KubeObject): string {
  return `${kind} ${metadata.name}`;
}

function linesOf(object: KubeObject): string[] {
  return stringify(shown(object), { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd().split('\n');
}

function shown(object: KubeObject): unknown {
  if (object.kind !== 'Secret') return object;
  const { data, stringData, ...rest } = object as KubeObject & { stringData?: Record<string, string> };
  return { ...rest, holds: [...Object.keys(data ?? {}), ...Object.keys(stringData ?? {})] };
}

/** Lines that are in one text alone, by the longest common subsequence. */
function changedLines(before: readonly string[], now: readonly string[]): string[] {
  const common = Array.from({ length: before.length + 1 }, () => new Uint16Array(now.length + 1));
  const lengthAt = (i: number, j: number) => common[i]?.[j] ?? 0;
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const row = common[i] as Uint16Array;
      row[j] = before[i] === now[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1));
    }
  }
  const changed: string[] = [];
  for (let i = 0, j = 0; i < before.length || j < now.length; ) {
    if (i < before.length && before[i] === now[j]) {
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < before.length && lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      changed.push(`- ${before[i]}`);
      i += 1;
    } else {
      changed.push(`+ ${now[j]}`);
      j += 1;
    }
  }
  return changed;
}
