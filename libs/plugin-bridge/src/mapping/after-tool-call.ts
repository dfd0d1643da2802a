import { type JsonObject, type JsonValue, jsonEqual, type ToolResult } from '@codedock/domain';
import { InvalidAnswer } from '../ports/invalid-answer.js';
import { optionalObject } from './fields.js';
import { callToWire } from './message-wire.js';
import type { PortChanges, PortMapping } from './port-mapping.js';

/** `afterToolCall` ↔ `tools/post-execute`: `{call, result}`, of which only the result's output, error and success may change. */
export const afterToolCallMapping: PortMapping<'tools/post-execute'> = {
  encode(event) {
    return JSON.stringify({ call: callToWire(event.call, event.n), result: resultToWire(event.call, event.result) });
  },
  layOver(sent, answer) {
    const result = optionalObject(answer.value, 'result', 'result');
    if (result === undefined) return undefined;
    const sentResult = sent.value['result'] as JsonObject;
    refuseOther(result, sentResult, 'CallID', 'call_id');
    refuseOther(result, sentResult, 'Name', 'name');
    const change: { -readonly [K in keyof PortChanges['tools/post-execute']]: PortChanges['tools/post-execute'][K] } =
      {};
    const success = changedField(result, 'Success', 'success', sentResult['Success']);
    if (success !== undefined) {
      if (typeof success !== 'boolean') throw new InvalidAnswer('result.Success is not a boolean');
      change.success = success;
    }
    // A missing error travels as an empty text, because typed readers know no null.
    const error = changedField(result, 'Error', 'error', sentResult['Error'], null, '');
    if (error !== undefined) {
      if (error !== null && typeof error !== 'string') throw new InvalidAnswer('result.Error is not a string');
      change.error = error === '' ? null : error;
    }
    const output = changedField(result, 'Output', 'output', sentResult['Output'] ?? null);
    // An output of null does not travel; a typed reader writes it back as an empty text.
    if (output !== undefined && !(output === '' && sentResult['Output'] === undefined)) change.output = output;
    for (const _ in change) return { text: overlaid(sent.value, sentResult, change), change };
    return undefined;
  },
};

function resultToWire(call: { readonly id: string; readonly name: string }, result: ToolResult): JsonObject {
  const wire: JsonObject = { CallID: call.id, Name: call.name };
  if (result.output !== null) wire['Output'] = result.output;
  wire['Success'] = result.success;
  wire['Error'] = result.error ?? '';
  return wire;
}

function overlaid(sent: JsonObject, sentResult: JsonObject, change: PortChanges['tools/post-execute']): string {
  const { Output: output, ...rest } = sentResult;
  const newOutput = change.output === undefined ? output : change.output;
  return JSON.stringify({
    ...sent,
    result: {
      ...rest,
      ...(newOutput === undefined || newOutput === null ? {} : { Output: newOutput }),
      ...(change.success === undefined ? {} : { Success: change.success }),
      ...(change.error === undefined ? {} : { Error: change.error ?? '' }),
    },
  });
}

// Both spellings may be present: the one that differs from what was sent is the change.
function changedField(
  result: JsonObject,
  capital: string,
  lower: string,
  sent: JsonValue | undefined,
  ...equivalents: readonly JsonValue[]
): JsonValue | undefined {
  for (const name of [capital, lower]) {
    if (!Object.hasOwn(result, name)) continue;
    const value = result[name] as JsonValue;
    const same = jsonEqual(value, sent) || (equivalents.includes(value as null) && equivalents.includes(sent as null));
    if (!same) return value;
  }
  return undefined;
}

function refuseOther(result: JsonObject, sent: JsonObject, capital: string, lower: string): void {
  for (const name of [capital, lower]) {
    const value = result[name];
    if (value === undefined || value === '' || value === sent[capital]) continue;
    throw new InvalidAnswer(`result.${name} differs from the one that was sent`);
  }
}
