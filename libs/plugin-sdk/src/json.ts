/** A JSON value. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

/** A JSON object. */
export type JsonObject = { [key: string]: JsonValue };

/** Whether a value is an object with members: no array, no null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object in some bytes; no bytes are an empty object. `what` names them in the error. @throws TypeError */
export function readObject(bytes: Uint8Array, what: string): JsonObject {
  if (bytes.length === 0) return {};
  const value = readValue(bytes, what);
  if (!isJsonObject(value)) throw new TypeError(`${what} is no JSON object`);
  return value;
}

/** The value in some bytes. @throws TypeError when they are no JSON. */
export function readValue(bytes: Uint8Array, what: string): JsonValue {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')) as JsonValue;
  } catch (error) {
    throw new TypeError(`${what} is no JSON (${(error as Error).message})`);
  }
}

/** Whether two values are the same JSON: order of members aside, members that are undefined left out. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((item, index) => jsonEqual(item, b[index]))
    );
  }
  const right = b as Record<string, unknown>;
  const names = (value: object) => Object.entries(value).filter(([, member]) => member !== undefined);
  const left = names(a);
  return (
    left.length === names(b).length &&
    left.every(([name, member]) => Object.hasOwn(right, name) && jsonEqual(member, right[name]))
  );
}
