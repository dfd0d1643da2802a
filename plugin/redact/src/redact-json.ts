import type { JsonObject, JsonValue } from '@codedock/plugin-sdk';
import { redactText } from './redact-text.js';
import { namesSecret, placeholder } from './rules.js';

const maxDepth = 500;

/**
 * A JSON value without the secrets in its texts, names of members included. The very same value when it has none.
 * @throws RangeError when it is nested deeper than 500.
 */
export function redactJson<T extends JsonValue>(value: T): T {
  return redactValue(value, 0) as T;
}

function redactValue(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return redactText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= maxDepth) throw new RangeError(`the value is nested deeper than ${maxDepth}`);
  return Array.isArray(value) ? redactArray(value, depth + 1) : redactObject(value, depth + 1);
}

function redactArray(items: JsonValue[], depth: number): JsonValue[] {
  const redacted = items.map((item) => redactValue(item, depth));
  return redacted.some((item, index) => item !== items[index]) ? redacted : items;
}

function redactObject(object: JsonObject, depth: number): JsonObject {
  let changed = false;
  const names = new Set<string>();
  const members = Object.entries(object).map(([name, value]): [string, JsonValue] => {
    const newName = unusedName(redactText(name), names);
    const newValue = isSecretText(name, value) ? placeholder('secret') : redactValue(value, depth);
    changed ||= newName !== name || newValue !== value;
    return [newName, newValue];
  });
  return changed ? Object.fromEntries(members) : object;
}

function isSecretText(name: string, value: JsonValue): boolean {
  return typeof value === 'string' && value !== '' && namesSecret(name);
}

// Two names that were only told apart by their secrets stay two members.
function unusedName(name: string, used: Set<string>): string {
  let candidate = name;
  for (let number = 2; used.has(candidate); number++) candidate = `${name}#${number}`;
  used.add(candidate);
  return candidate;
}
