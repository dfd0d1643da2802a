import type { JsonObject, JsonValue } from '../json.js';

/** A tool call as it stands in a message. */
export interface MessageCall {
  readonly id: string;
  readonly name: string;
  readonly arguments?: JsonValue;
  readonly attempt?: number;
  readonly idempotency_key?: string;
}

/**
 * A message of the conversation, in the shape it has on the wire, so that what a plugin does not touch goes back exactly
 * as it came. `content` is a text, or the output of the call `call_id`.
 */
export interface Message {
  readonly id: string;
  readonly session_id: string;
  readonly run_id?: string;
  readonly turn_id?: string;
  readonly role: 'user' | 'assistant' | 'tool' | 'system' | 'developer';
  readonly content: { readonly text: string } | { readonly call_id: string; readonly output?: JsonValue };
  readonly attachments?: readonly JsonValue[];
  readonly tool_calls?: readonly MessageCall[];
  readonly event_seq: number;
  /** RFC 3339; empty in a message a plugin makes. */
  readonly created_at: string;
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
