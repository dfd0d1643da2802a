import type { JsonObject } from '@codedock/plugin-sdk';
import type { PluginMode } from './mode.js';

/** The members of an envelope that a misbehaving answer spoils. */
interface Answered {
  readonly type: string;
  readonly payload: Buffer;
}

const defaultOversize = 5 * 1024 * 1024;

/** Spoils a well-formed answer as the mode says. `sent` is the payload of the question. */
export function misanswer<A extends Answered>(mode: PluginMode, answer: A, sent: Buffer): A {
  switch (mode.mode) {
    case 'garbage':
      return { ...answer, payload: Buffer.from('\u0000 this is no JSON {"') };
    case 'wrong-direction':
      return { ...answer, type: mode.type ?? 'nonsense/type' };
    case 'wrong-type':
      return { ...answer, payload: encode(withWrongTypes(decode(sent))) };
    case 'oversize':
      return { ...answer, payload: encode({ ...decode(sent), padding: 'x'.repeat(mode.bytes ?? defaultOversize) }) };
    case 'change-call-id':
      return { ...answer, payload: encode(withOtherCall(decode(sent))) };
    default:
      return answer;
  }
}

// Every member that has a fixed type gets another one.
function withWrongTypes(payload: JsonObject): JsonObject {
  const wrong: JsonObject = {};
  for (const name of ['content', 'system_prompt']) if (name in payload) wrong[name] = 7;
  for (const name of ['messages', 'hidden', 'headers', 'call', 'result'])
    if (name in payload) wrong[name] = 'not this type';
  return { ...payload, ...wrong };
}

function withOtherCall(payload: JsonObject): JsonObject {
  const call = { ...(payload['call'] as JsonObject), id: 'another-call' };
  const result = payload['result'] as JsonObject | undefined;
  return { ...payload, call, ...(result === undefined ? {} : { result: { ...result, CallID: 'another-call' } }) };
}

function decode(bytes: Buffer): JsonObject {
  return bytes.length === 0 ? {} : (JSON.parse(bytes.toString('utf8')) as JsonObject);
}

function encode(value: JsonObject): Buffer {
  return Buffer.from(JSON.stringify(value));
}
