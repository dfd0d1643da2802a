import { type ErrorDetail, isWellFormed, MAX_JSON_DEPTH } from '@codedock/domain';

/** Most values (scalars, arrays, objects) one request may hold. */
export const MAX_JSON_VALUES = 100_000;

/** Keys that reach an object's prototype when a careless reader copies them. */
const FORBIDDEN_KEYS = new Set(['__proto__', 'constructor']);

/** Longest path that is quoted back: hostile keys may be long. */
const MAX_PATH = 200;

interface Open {
  readonly value: unknown;
  readonly path: string;
  readonly depth: number;
}

/**
 * The first reason why a parsed JSON value may not enter, or undefined. Refused: nesting over 64 levels, the keys
 * `__proto__` and `constructor`, NUL and unpaired surrogates in strings and keys, numbers beyond a double, more than
 * 100,000 values. Iterative, so that hostile depth cannot overflow the stack.
 */
export function hygieneFault(root: unknown): ErrorDetail | undefined {
  const open: Open[] = [{ value: root, path: '', depth: 0 }];
  let values = 0;
  for (let top = open.pop(); top !== undefined; top = open.pop()) {
    values += 1;
    if (values > MAX_JSON_VALUES) return { path: '', message: `holds more than ${MAX_JSON_VALUES} values` };
    const fault = scalarFault(top);
    if (fault !== undefined) return fault;
    if (typeof top.value !== 'object' || top.value === null) continue;
    if (top.depth >= MAX_JSON_DEPTH) {
      return { path: cut(top.path), message: `is nested deeper than ${MAX_JSON_DEPTH} levels` };
    }
    const depth = top.depth + 1;
    for (const [key, value] of Object.entries(top.value).reverse()) {
      const path = `${top.path}/${pointerToken(key)}`;
      if (FORBIDDEN_KEYS.has(key)) return { path: cut(path), message: `the key ${key} is not allowed` };
      if (!isWellFormed(key)) return { path: cut(top.path), message: 'a key holds NUL or an unpaired surrogate' };
      open.push({ value, path, depth });
    }
  }
  return undefined;
}

function scalarFault({ value, path }: Open): ErrorDetail | undefined {
  if (typeof value === 'string' && !isWellFormed(value)) {
    return { path: cut(path), message: 'holds NUL or an unpaired surrogate' };
  }
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return { path: cut(path), message: 'is a number too large to keep' };
  }
  return undefined;
}

/** A key as a token of a JSON pointer (RFC 6901). */
export function pointerToken(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

function cut(path: string): string {
  return path.length <= MAX_PATH ? path : `${path.slice(0, MAX_PATH)}…`;
}
