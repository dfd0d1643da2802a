import { isJsonObject, type JsonObject } from '../json.js';
import { describeIssues, type StandardSchema } from '../standard-schema.js';
import { readHostEnvironment } from './host-environment.js';

/**
 * The `config` object of this plugin's plugin.json; empty when there is none. With a schema (zod and the like) it is
 * checked and typed. @throws Error that names the field; thrown before or in `bootstrap` it refuses the plugin's start.
 */
export function config(): JsonObject;
export function config<Output>(schema: StandardSchema<Output>): Output;
export function config(schema?: StandardSchema): unknown {
  const value = readConfig(readHostEnvironment().config);
  if (schema === undefined) return value;
  const result = schema['~standard'].validate(value);
  if (result instanceof Promise)
    throw new TypeError('config() takes schemas that answer at once; remove the asynchronous checks');
  if (result.issues !== undefined) throw new Error(`plugin.json "config" is wrong: ${describeIssues(result.issues)}`);
  return result.value;
}

function readConfig(text: string): JsonObject {
  if (text === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`CODEDOCK_PLUGIN_CONFIG is no JSON (${(error as Error).message})`);
  }
  if (!isJsonObject(value)) throw new Error('CODEDOCK_PLUGIN_CONFIG must hold one JSON object');
  return value;
}
