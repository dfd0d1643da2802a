/** What an API object is made of. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
/** An API object. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    generation?: number;
    creationTimestamp?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    managedFields?: ManagedFields[];
  };
  spec?: { [key: string]: Json };
  status?: { [key: string]: Json };
  data?: Record<string, string>;
}

/** Who owns which fields. Lists count as one field. */
export interface ManagedFields {
  manager: string;
  operation: 'Apply' | 'Update';
  subresource?: string;
  apiVersion: string;
  fieldsV1: { [key: string]: Json };
}

/** A writer: field manager, how it writes, and through which subresource. */
export interface Writer {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly subresource?: string;
}

/** A field that another manager owns has another value: answered with 409 by an API server. */
export class ApplyConflict extends Error {}

type Path = readonly string[];
const NOT_OWNED = new Set(['apiVersion', 'kind', 'status']);
const OWN_METADATA = new Set(['labels', 'annotations']);

/**
 * Server-side apply: the writer owns what it sends; what it owned and no longer sends goes, unless somebody else owns it;
 * a differing value of somebody else's is a conflict, or taken over by force.
 */
export function applied(live: KubeObject, sent: KubeObject, writer: Writer, force: boolean): KubeObject {
  const next = structuredClone(live);
  const wanted = leaves(sent);
  const others = (next.metadata.managedFields ?? []).filter((entry) => !same(entry, writer));
  const conflicts: string[] = [];
  for (const path of wanted) {
    if (equal(valueAt(next, path), valueAt(sent, path))) continue;
    for (const entry of others.filter((one) => owns(one, path))) {
      if (force) disown(entry, path);
      else conflicts.push(`conflict with ${named(entry)} using ${entry.apiVersion}: .${path.join('.')}`);
    }
  }
  if (conflicts.length > 0) {
    throw new ApplyConflict(`Apply failed with ${conflicts.length} conflict: ${conflicts.join(', ')}`);
  }
  const before = (next.metadata.managedFields ?? []).find((entry) => same(entry, writer));
  for (const path of before === undefined ? [] : ownedBy(before)) {
    const kept = wanted.some((one) => one.join('\0') === path.join('\0')) || others.some((one) => owns(one, path));
    if (!kept) removeAt(next, path);
  }
  for (const path of wanted) setAt(next, path, structuredClone(valueAt(sent, path) as Json));
  return owned(next, others, writer, wanted);
}

/** Any other write: the writer owns what it has changed, alone. */
export function updated(live: KubeObject | undefined, next: KubeObject, writer: Writer): KubeObject {
  const result = structuredClone(next);
  const changed = leaves(result).filter(
    (path) => live === undefined || !equal(valueAt(live, path), valueAt(result, path)),
  );
  const others = structuredClone(live?.metadata.managedFields ?? []);
  for (const entry of others) for (const path of changed) disown(entry, path);
  const mine = others.find((entry) => same(entry, writer));
  const rest = others.filter((entry) => entry !== mine);
  return owned(result, rest, writer, [...(mine === undefined ? [] : ownedBy(mine)), ...changed]);
}

function owned(object: KubeObject, others: ManagedFields[], writer: Writer, paths: readonly Path[]): KubeObject {
  const fieldsV1: { [key: string]: Json } = {};
  for (const path of paths) {
    let node = fieldsV1;
    for (const part of path) {
      node[`f:${part}`] ??= {};
      node = node[`f:${part}`] as { [key: string]: Json };
    }
  }
  const mine: ManagedFields = { ...writer, apiVersion: object.apiVersion, fieldsV1 };
  object.metadata.managedFields = [...others, mine].filter((entry) => Object.keys(entry.fieldsV1).length > 0);
  return object;
}

function leaves(object: KubeObject): Path[] {
  const found: Path[] = [];
  const visit = (value: Json, path: Path) => {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isMap && Object.keys(value).length > 0)
      for (const [key, one] of Object.entries(value)) visit(one, [...path, key]);
    else found.push(path);
  };
  for (const [key, value] of Object.entries(object)) {
    if (NOT_OWNED.has(key)) continue;
    if (key === 'metadata') {
      for (const [name, one] of Object.entries(object.metadata)) {
        if (OWN_METADATA.has(name)) visit(one as Json, ['metadata', name]);
      }
    } else visit(value as Json, [key]);
  }
  return found;
}

function ownedBy(entry: ManagedFields): Path[] {
  const found: Path[] = [];
  const visit = (node: { [key: string]: Json }, path: Path) => {
    if (Object.keys(node).length === 0) found.push(path);
    for (const [key, child] of Object.entries(node)) visit(child as { [key: string]: Json }, [...path, key.slice(2)]);
  };
  visit(entry.fieldsV1, []);
  return found.filter((path) => path.length > 0);
}

function owns(entry: ManagedFields, path: Path): boolean {
  return ownedBy(entry).some((one) => one.join('\0') === path.join('\0'));
}

function disown(entry: ManagedFields, path: Path): void {
  const remove = (node: { [key: string]: Json }, at: number): void => {
    const key = `f:${path[at]}`;
    const child = node[key] as { [key: string]: Json } | undefined;
    if (child === undefined) return;
    if (at < path.length - 1) remove(child, at + 1);
    if (at === path.length - 1 || Object.keys(child).length === 0) delete node[key];
  };
  remove(entry.fieldsV1, 0);
}

function valueAt(object: unknown, path: Path): unknown {
  return path.reduce<unknown>((node, part) => (node as Record<string, unknown> | undefined)?.[part], object);
}

function setAt(object: unknown, path: Path, value: Json): void {
  let node = object as Record<string, unknown>;
  for (const part of path.slice(0, -1)) {
    node[part] ??= {};
    node = node[part] as Record<string, unknown>;
  }
  node[path[path.length - 1] as string] = value;
}

function removeAt(object: unknown, path: Path): void {
  const parent = valueAt(object, path.slice(0, -1)) as Record<string, unknown> | undefined;
  if (parent !== undefined) delete parent[path[path.length - 1] as string];
}

function same(entry: ManagedFields, writer: Writer): boolean {
  return (
    entry.manager === writer.manager &&
    entry.operation === writer.operation &&
    (entry.subresource ?? '') === (writer.subresource ?? '')
  );
}

function named({ manager, subresource }: ManagedFields): string {
  return subresource === undefined ? `"${manager}"` : `"${manager}" with subresource "${subresource}"`;
}

function equal(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
