import { isJsonObject, type JsonValue } from './json.js';

// NUL and unpaired surrogates: PostgreSQL's jsonb refuses both and its text refuses NUL.
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for.
const ILL_FORMED = /\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** True when the text holds neither NUL nor an unpaired surrogate, so that every store and wire accepts it. */
export function isWellFormed(text: string): boolean {
  ILL_FORMED.lastIndex = 0;
  return !ILL_FORMED.test(text);
}

/** The text with every NUL and unpaired surrogate replaced by U+FFFD. Returns the same string when nothing is replaced. */
export function wellFormedText(text: string): string {
  return isWellFormed(text) ? text : text.replace(ILL_FORMED, '\ufffd');
}

/** The value with all its strings and keys made well-formed. Returns the same reference when nothing is replaced. */
export function wellFormedJson<T extends JsonValue>(value: T): T {
  return repaired(value) as T;
}

function repaired(value: JsonValue): JsonValue {
  if (typeof value === 'string') return wellFormedText(value);
  if (Array.isArray(value)) {
    const items = value.map(repaired);
    return items.every((item, index) => item === value[index]) ? value : items;
  }
  if (isJsonObject(value)) {
    let changed = false;
    const entries = Object.entries(value).map(([key, child]): [string, JsonValue] => {
      const next: [string, JsonValue] = [wellFormedText(key), repaired(child)];
      if (next[0] !== key || next[1] !== child) changed = true;
      return next;
    });
    return changed ? Object.fromEntries(entries) : value;
  }
  return value;
}
