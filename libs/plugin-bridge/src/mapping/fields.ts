import { isJsonObject, type JsonObject, type JsonValue } from '@codedock/domain';
import { InvalidAnswer } from '../ports/invalid-answer.js';

/** A member that has to be a string where it is present; undefined when absent. @throws InvalidAnswer */
export function stringField(of: JsonObject, name: string, path: string): string | undefined {
  const value = of[name];
  if (value === undefined) return undefined;
  if (typeof value !== 'string') throw new InvalidAnswer(`${path} is not a string`);
  return value;
}

/** As `stringField`; null and the empty string count as absent. @throws InvalidAnswer */
export function optionalString(of: JsonObject, name: string, path: string): string | undefined {
  const value = of[name];
  if (value === null) return undefined;
  const text = stringField(of, name, path);
  return text === '' ? undefined : text;
}

/** A member that has to be an array where it is present; null counts as absent. @throws InvalidAnswer */
export function optionalArray(of: JsonObject, name: string, path: string): JsonValue[] | undefined {
  const value = of[name];
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) throw new InvalidAnswer(`${path} is not an array`);
  return value;
}

/** A member that has to be an object where it is present; null counts as absent. @throws InvalidAnswer */
export function optionalObject(of: JsonObject, name: string, path: string): JsonObject | undefined {
  const value = of[name];
  if (value === undefined || value === null) return undefined;
  if (!isJsonObject(value)) throw new InvalidAnswer(`${path} is not an object`);
  return value;
}

/** A value that has to be an object. @throws InvalidAnswer */
export function objectAt(value: JsonValue | undefined, path: string): JsonObject {
  if (!isJsonObject(value)) throw new InvalidAnswer(`${path} is not an object`);
  return value;
}
