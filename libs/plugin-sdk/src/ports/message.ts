import type { JsonObject, JsonValue } from '../json.js';

/** A tool call as it stands in a message. */
export interface MessageCall {
  id: string;
  name: string;
  arguments?: JsonValue;
  attempt?: number;
  idempotency_key?: string;
}

/**
 * A message of the conversation, in the shape it has on the wire, so that what a plugin does not touch goes back exactly
 * as it came. `content` is a text, or the output of the call `call_id`.
 */
export interface Message {
  id: string;
  session_id: string;
  run_id?: string;
  turn_id?: string;
  role: 'user' | 'assistant' | 'tool' | 'system' | 'developer';
  content: { text: string } | { call_id: string; output?: JsonValue };
  attachments?: JsonValue[];
  tool_calls?: MessageCall[];
  event_seq: number;
  /** RFC 3339; empty in a message a plugin makes. */
  created_at: string;
}

/**
 * A message that goes to every model call of the run and appears in no API, log or audit. Add it to `hidden` at
 * agent/pre-step. The host fills in ids and times.
 */
export function hiddenText(text: string, role: 'system' | 'developer' | 'user' = 'system'): Message {
  return { id: '', session_id: '', role, content: { text }, event_seq: 0, created_at: '' };
}

/** Messages of a payload; absent and null are none. @throws TypeError when it is something else. */
export function readMessages(payload: JsonObject, member: string): Message[] {
  const value = payload[member];
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new TypeError(`payload.${member} is no array`);
  return value as unknown as Message[];
}

/** A text member of a payload; absent and null are empty. @throws TypeError when it is something else. */
export function readText(payload: JsonObject, member: string): string {
  const value = payload[member];
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string') throw new TypeError(`payload.${member} is no text`);
  return value;
}
