import { isJsonObject, type JsonObject, type JsonValue } from '../json.js';
import { readText } from './message.js';

/** A tool call of the model. Id and name never change. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** What the model passes; absent when it passes nothing. */
  readonly arguments: JsonValue | undefined;
  /** Number of the execution attempt, from 1; 0 before the first. */
  readonly attempt: number;
  readonly idempotencyKey: string;
}

/** The result of a call. */
export interface ToolResult {
  readonly callId: string;
  readonly name: string;
  /** JSON; null when there is none. */
  readonly output: JsonValue;
  readonly success: boolean;
  /** Absent when the call did not fail. */
  readonly error: string | undefined;
}

/** The call in a payload. @throws TypeError when it is missing or misshapen. */
export function readCall(payload: JsonObject): ToolCall {
  const call = payload['call'];
  if (!isJsonObject(call)) throw new TypeError('payload.call is no object');
  return {
    id: readText(call, 'id'),
    name: readText(call, 'name'),
    arguments: call['arguments'],
    attempt: typeof call['attempt'] === 'number' ? call['attempt'] : 0,
    idempotencyKey: readText(call, 'idempotency_key'),
  };
}

/** The result in a payload, whichever spelling its members have. @throws TypeError when it is missing or misshapen. */
export function readResult(payload: JsonObject): ToolResult {
  const result = payload['result'];
  if (!isJsonObject(result)) throw new TypeError('payload.result is no object');
  const error = readText(result, spellingOf(result, 'Error'));
  return {
    callId: readText(result, spellingOf(result, 'CallID')),
    name: readText(result, spellingOf(result, 'Name')),
    output: result[spellingOf(result, 'Output')] ?? null,
    success: result[spellingOf(result, 'Success')] === true,
    error: error === '' ? undefined : error,
  };
}

/** The member of a result as this host spells it: `Output`, or `output` where only that exists. */
export function spellingOf(result: JsonObject, member: 'CallID' | 'Name' | 'Output' | 'Success' | 'Error'): string {
  const lower = member === 'CallID' ? 'call_id' : member.toLowerCase();
  return !(member in result) && lower in result ? lower : member;
}
