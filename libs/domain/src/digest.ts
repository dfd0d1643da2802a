import { isJsonObject, type JsonValue } from './json.js';

/** Hex digest of UTF-8 text. The adapters give SHA-256; the pure core holds no implementation. */
export type Digest = (text: string) => string;

/**
 * Canonical JSON text of a value, RFC 8785 (JSON Canonicalization Scheme): no white space, keys sorted by UTF-16 code
 * units, numbers and strings as ECMAScript serialises them. Equal values give equal text whatever their key order.
 * @throws RangeError for a number that JSON cannot hold (NaN, infinities).
 */
export function canonicalJson(value: JsonValue): string {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new RangeError('canonical JSON cannot hold NaN or an infinity');
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (isJsonObject(value)) {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] as JsonValue)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

/** Digest of a value by its canonical JSON. */
export function digestOf(digest: Digest, value: JsonValue): string {
  return digest(canonicalJson(value));
}

/** What an approval seals: exactly this tool, in this version of its schema, with exactly these arguments. */
export function sealDigest(digest: Digest, call: { tool: string; schemaDigest: string; arguments: JsonValue }): string {
  return digestOf(digest, { tool: call.tool, schema: call.schemaDigest, arguments: call.arguments });
}
