import { isUtf8 } from 'node:buffer';
import { isJsonObject, type JsonObject, type JsonValue, jsonDepth, MAX_JSON_DEPTH } from '@codedock/domain';
import { InvalidAnswer } from './invalid-answer.js';

/** A JSON text from outside and what it parsed to. */
export interface ReadJson<T extends JsonValue = JsonValue> {
  readonly text: string;
  readonly value: T;
}

/**
 * Parses foreign JSON: UTF-8, no `__proto__` key, nested at most 64 deep (or as deep as what was sent, where that is deeper).
 * @throws InvalidAnswer naming `field`.
 */
export function readJson(bytes: Uint8Array, field: string, sent?: () => JsonValue): ReadJson {
  if (!isUtf8(bytes)) throw new InvalidAnswer(`${field} is not UTF-8`);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    throw new InvalidAnswer(`${field} is not JSON`);
  }
  const depth = safeDepth(value, field);
  if (depth > MAX_JSON_DEPTH && (sent === undefined || depth > jsonDepth(sent()))) {
    throw new InvalidAnswer(`${field} is nested deeper than ${MAX_JSON_DEPTH}`);
  }
  return { text, value };
}

/** As `readJson`, for a text that has to be an object. */
export function readJsonObject(bytes: Uint8Array, field: string, sent?: () => JsonValue): ReadJson<JsonObject> {
  const read = readJson(bytes, field, sent);
  if (!isJsonObject(read.value)) throw new InvalidAnswer(`${field} is not a JSON object`);
  return { text: read.text, value: read.value };
}

// Iterative: hostile depth must not overflow the stack. A parsed `__proto__` key is an own property of the object.
function safeDepth(root: JsonValue, field: string): number {
  if (typeof root !== 'object' || root === null) return 0;
  let depth = 0;
  let level: object[] = [root];
  while (level.length > 0) {
    depth += 1;
    const next: object[] = [];
    for (const node of level) {
      if (Array.isArray(node)) {
        for (const child of node) if (typeof child === 'object' && child !== null) next.push(child);
        continue;
      }
      if (Object.hasOwn(node, '__proto__')) throw new InvalidAnswer(`${field} has a key named __proto__`);
      for (const child of Object.values(node)) if (typeof child === 'object' && child !== null) next.push(child);
    }
    level = next;
  }
  return depth;
}
