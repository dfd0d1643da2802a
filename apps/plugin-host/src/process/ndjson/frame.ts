import { isUtf8 } from 'node:buffer';
import { isJsonObject, type JsonObject, type JsonValue } from '@codedock/domain';
import { rawMember } from '@codedock/plugin-bridge';

/** Bytes of the longest line, its end not counted. */
export const maxLineBytes = 4 * 1024 * 1024;

/** What the other side sent in one line. */
export type Frame =
  /** Something is asked; it gets an answer with the same id. */
  | { readonly kind: 'request'; readonly id: number; readonly method: string; readonly params: Members }
  /** Something is told; it is never answered. */
  | { readonly kind: 'notification'; readonly method: string; readonly params: Members }
  | { readonly kind: 'result'; readonly id: number; readonly result: Members }
  | { readonly kind: 'error'; readonly id: number; readonly error: string }
  /** A request whose params cannot be used; it is answered with the reason. */
  | { readonly kind: 'refused'; readonly id: number; readonly method: string; readonly reason: string }
  /** An answer that is none; it fails its call. */
  | { readonly kind: 'invalid'; readonly id: number; readonly reason: string }
  /** No frame at all. */
  | { readonly kind: 'broken'; readonly reason: string };

/** A JSON value as it was written, and its members by name when it is an object. */
export interface Members {
  readonly text: string;
  readonly value: JsonValue;
  /** The member's value; undefined when there is none. */
  get(name: string): JsonValue | undefined;
  /** The member's value as it was written: numbers keep their digits. */
  raw(name: string): string | undefined;
}

const longestError = 2_000;

/** Reads one line. Never throws, whatever it holds. */
export function readFrame(line: Buffer): Frame {
  if (!isUtf8(line)) return { kind: 'broken', reason: 'it is not UTF-8' };
  const text = line.toString('utf8');
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    return { kind: 'broken', reason: 'it is not JSON' };
  }
  if (!isJsonObject(value)) return { kind: 'broken', reason: 'it is not a JSON object' };
  return Object.hasOwn(value, 'method') ? readAsked(text, value) : readAnswer(text, value);
}

function readAsked(text: string, frame: JsonObject): Frame {
  const { method, id = 0 } = frame;
  if (typeof method !== 'string' || method === '') return { kind: 'broken', reason: 'its "method" is no name' };
  if (id !== null && id !== 0 && !isRequestId(id))
    return { kind: 'broken', reason: 'its "id" is no whole number from 1 on' };
  const raw = rawMember(text, 'params');
  const params = raw === undefined ? noMembers : membersOf(raw, own(frame, 'params') ?? null);
  if (raw === undefined || isJsonObject(params.value)) {
    return isRequestId(id) ? { kind: 'request', id, method, params } : { kind: 'notification', method, params };
  }
  if (isRequestId(id)) return { kind: 'refused', id, method, reason: '"params" must be an object' };
  return { kind: 'broken', reason: 'its "params" are no object' };
}

function readAnswer(text: string, frame: JsonObject): Frame {
  const { id } = frame;
  if (!isRequestId(id))
    return { kind: 'broken', reason: 'it has no "method", and its "id" is no whole number from 1 on' };
  const error = own(frame, 'error');
  if (error !== undefined && error !== null && error !== '') return { kind: 'error', id, error: errorText(error) };
  const raw = rawMember(text, 'result');
  if (raw === undefined) return { kind: 'invalid', id, reason: 'the answer has neither "result" nor "error"' };
  return { kind: 'result', id, result: membersOf(raw, own(frame, 'result') ?? null) };
}

function isRequestId(id: JsonValue | undefined): id is number {
  return typeof id === 'number' && Number.isSafeInteger(id) && id > 0;
}

function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** Errors are texts; an object with a `message`, as JSON-RPC has it, is understood too. */
function errorText(error: JsonValue): string {
  const said = isJsonObject(error) && typeof error['message'] === 'string' ? error['message'] : error;
  const text = typeof said === 'string' ? said : 'it answered an error without a text';
  return text.length > longestError ? `${text.slice(0, longestError - 1)}…` : text;
}

/** A value that was parsed from a text. */
export function membersOf(text: string, value: JsonValue): Members {
  return {
    text,
    value,
    get: (name) => (isJsonObject(value) ? own(value, name) : undefined),
    raw: (name) => (isJsonObject(value) ? rawMember(text, name) : undefined),
  };
}

const noMembers = membersOf('{}', {});

/** A request's line. `params` is JSON text. */
export function requestLine(id: number, method: string, params: string): Buffer {
  return Buffer.from(`{"id":${id},"method":${JSON.stringify(method)},"params":${params}}\n`);
}

/** A notification's line. `params` is JSON text. */
export function notificationLine(method: string, params: string): Buffer {
  return Buffer.from(`{"method":${JSON.stringify(method)},"params":${params}}\n`);
}

/** An answer's line. */
export function resultLine(id: number, result: JsonValue): Buffer {
  return Buffer.from(`{"id":${id},"result":${JSON.stringify(result)}}\n`);
}

/** An answer's line that says why there is no result. */
export function errorLine(id: number, error: string): Buffer {
  return Buffer.from(`{"id":${id},"error":${JSON.stringify(error)}}\n`);
}

/** JSON text without line ends: in valid JSON they only stand between tokens. */
export function oneLine(json: string): string {
  return /[\r\n]/.test(json) ? json.replace(/[\r\n]/g, ' ') : json;
}
