import { isPort, type plugin } from '@codedock/proto';
import { isJsonObject, type JsonObject, type JsonValue, readObject } from '../json.js';
import { type DecisionName, decisionsOf } from '../ports/decision.js';
import { decoded } from './envelope-json.js';

/** What a plugin decided. */
export interface Decision {
  readonly decision: DecisionName;
  /** Absent when the plugin gave none. */
  readonly reason?: string;
  /** The payload as it goes on: the plugin's where it changed something, else the one that was sent. */
  readonly payload: JsonObject;
  /** Whether the plugin sent a payload back. */
  readonly changed: boolean;
  /** The scratchpad afterwards. */
  readonly context: JsonObject;
  /** With `skipped`: the result in place of executing; absent = the host's default text. */
  readonly skipResult?: JsonValue;
}

/** Reads an answer as the host does. */
export function decide(question: plugin.Envelope, answer: plugin.Envelope): Decision {
  const sent = readObject(question.payload, 'the payload sent');
  const answered = decoded(answer.payload);
  const changed = isJsonObject(answered);
  const named = isPort(question.type) ? decisionsOf[question.type][answer.type] : undefined;
  const skipResult = decoded(answer.skipResult);
  const context = decoded(answer.context.length === 0 ? question.context : answer.context);
  return {
    decision: named ?? (changed ? 'changed' : 'continued'),
    ...(answer.reason === '' ? {} : { reason: answer.reason }),
    payload: changed ? { ...sent, ...answered } : sent,
    changed,
    context: isJsonObject(context) ? context : {},
    ...(skipResult === undefined ? {} : { skipResult }),
  };
}
