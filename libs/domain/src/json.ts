/** Any JSON value. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
/** A JSON object. Keys never include `__proto__`; readers of foreign JSON refuse it. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** True for a plain JSON object (not null, not an array). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Equality by JSON value: key order is irrelevant, an absent key differs from a null one. */
export function jsonEqual(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, index) => jsonEqual(item, b[index]));
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && jsonEqual(a[key], b[key]));
}

/** Nesting depth of a value: a scalar is 0, `[]` and `{}` are 1. Iterative, so that hostile depth cannot overflow the stack. */
export function jsonDepth(value: JsonValue): number {
  let deepest = 0;
  const open: { value: JsonValue; depth: number }[] = [{ value, depth: 0 }];
  for (let top = open.pop(); top !== undefined; top = open.pop()) {
    if (typeof top.value !== 'object' || top.value === null) continue;
    const depth = top.depth + 1;
    if (depth > deepest) deepest = depth;
    for (const child of Array.isArray(top.value) ? top.value : Object.values(top.value)) {
      open.push({ value: child, depth });
    }
  }
  return deepest;
}

/** Deepest JSON accepted from outside, in levels of nesting. */
export const MAX_JSON_DEPTH = 64;
