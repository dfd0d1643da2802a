import {
  type HookOutcome,
  type JsonObject,
  type JsonValue,
  type ScratchpadPatch,
  wellFormedText,
} from '@codedock/domain';
import { maxPayloadBytes, type Port, type plugin } from '@codedock/proto';
import { portMappings } from '../mapping/index.js';
import type { PortChanges, PortMapping } from '../mapping/port-mapping.js';
import { InvalidAnswer } from './invalid-answer.js';
import { type Direction, portTable } from './port-table.js';
import { readJson, readJsonObject } from './read-json.js';
import { scratchpadAnswer } from './scratchpad.js';

/** Longest reason kept of an answer, in UTF-16 units. */
export const MAX_REASON_LENGTH = 1024;

/** Bytes that one byte of JSON text can become in an encoder that escapes it: `<` as `\u003c`. */
const JSON_ESCAPE_GROWTH = 6;

/** The question an answer belongs to. */
export interface SentQuestion {
  /** Valid payload of the port: from a mapping's `encode`, or the `payload` of a former `PortReply`. */
  readonly payload: Buffer;
  /** Encoded scratchpad. */
  readonly context: Buffer;
  /** An answer that names another chain is invalid; absent = not checked. */
  readonly chainId?: string;
}

/** The members of an answered envelope that mean something. */
export type AnsweredEnvelope = Pick<plugin.Envelope, 'type' | 'payload'> &
  Partial<Pick<plugin.Envelope, 'context' | 'reason' | 'skipResult' | 'chainId'>>;

/** What an answer means at its port. */
export interface PortReply<P extends Port = Port> {
  /** `continued`, `changed`, `handled`, `blocked`, `asked`, `skipped`, `aborted`; `invalid` or `oversize` for a broken answer. */
  readonly outcome: HookOutcome;
  /** `continue` for a broken answer: the caller applies the failure policy by `outcome`. */
  readonly direction: Direction;
  /** The plugin's reason, at most 1,024 UTF-16 units. */
  readonly reason?: string;
  /** The value that goes on: exactly what was sent when nothing changed, when the answer ends the chain, or is broken. */
  readonly payload: Buffer;
  /** By JSON value. */
  readonly changed: boolean;
  /** What changed, typed; present if and only if `changed`. */
  readonly change?: PortChanges[P];
  /** What the answer set and deleted in the scratchpad. */
  readonly patch?: ScratchpadPatch;
  /** Why the answer is broken: which field and what is wrong. Safe to show. */
  readonly invalid?: string;
  /** Result to store instead of executing; present if and only if `direction` is `skip`. */
  readonly skipResult?: JsonValue;
  /** What was dropped from the answer without failing it: a scratchpad update, refused headers. */
  readonly notes: readonly string[];
}

const NO_NOTES: readonly string[] = [];

/** What the payload of a port is made of. */
const MEMBERS: Readonly<Record<Port, readonly string[]>> = {
  'agent/input': ['content', 'mode'],
  'agent/pre-step': ['system_prompt', 'hidden'],
  'agent/request': ['system_prompt', 'messages'],
  'llm/stream': ['headers', 'body'],
  'tools/pre-execute': ['call'],
  'tools/post-execute': ['call', 'result'],
};

const OUTCOME_OF = {
  continue: 'continued',
  handled: 'handled',
  block: 'blocked',
  ask: 'asked',
  skip: 'skipped',
  abort: 'aborted',
} as const satisfies Record<Direction, HookOutcome>;

/** The result stored for a skip that names none. */
export const DEFAULT_SKIP_RESULT = 'The call was skipped by a policy.';

/**
 * Judges one answer on one port. Never throws for whatever a plugin sends: a direction of another port, an unknown type,
 * a changed call id or name, a wrong field type, no JSON, depth over 64, a `__proto__` key or a payload over the cap give
 * `invalid` (`oversize`). No payload = unchanged. An answer with equal bytes is not parsed at all.
 */
export function interpretReply<P extends Port>(
  port: P,
  sent: SentQuestion,
  reply: AnsweredEnvelope,
  payloadCap: number = maxPayloadBytes,
): PortReply<P> {
  try {
    return interpreted(port, sent, reply, payloadCap);
  } catch (error) {
    if (!(error instanceof InvalidAnswer)) throw error;
    return {
      outcome: error.outcome,
      direction: 'continue',
      payload: sent.payload,
      changed: false,
      invalid: error.message,
      notes: NO_NOTES,
    };
  }
}

function interpreted<P extends Port>(
  port: P,
  sent: SentQuestion,
  reply: AnsweredEnvelope,
  payloadCap: number,
): PortReply<P> {
  if (
    sent.chainId !== undefined &&
    reply.chainId !== undefined &&
    reply.chainId !== '' &&
    reply.chainId !== sent.chainId
  ) {
    throw new InvalidAnswer('chain_id belongs to another question');
  }
  const direction = directionOf(port, reply.type);
  const notes: string[] = [];
  const laid = layOver(port, sent, reply.payload, payloadCap, notes);
  const bag = scratchpadAnswer(sent.context, reply.context ?? EMPTY_BYTES);
  if (bag.dropped !== undefined) notes.push(bag.dropped);
  // Block, handled, skip and abort drop what the answer changed; ask keeps it.
  const kept = direction === 'continue' || direction === 'ask' ? laid : undefined;
  const reason = cutReason(reply.reason);
  return {
    outcome: direction === 'continue' && kept !== undefined ? 'changed' : OUTCOME_OF[direction],
    direction,
    ...(reason === undefined ? {} : { reason }),
    payload: kept === undefined ? sent.payload : Buffer.from(kept.text),
    changed: kept !== undefined,
    ...(kept === undefined ? {} : { change: kept.change }),
    ...(bag.patch === undefined ? {} : { patch: bag.patch }),
    ...(direction === 'skip' ? { skipResult: skipResultOf(reply.skipResult, payloadCap) } : {}),
    notes: notes.length === 0 ? NO_NOTES : notes,
  };
}

const EMPTY_BYTES = Buffer.alloc(0);

function directionOf(port: Port, type: string): Direction {
  if (type === '' || type === port) return 'continue';
  const direction = (portTable[port].directions as ReadonlyMap<string, Direction>).get(type);
  if (direction === undefined)
    throw new InvalidAnswer(`type ${JSON.stringify(type.slice(0, 64))} is no answer on ${port}`);
  return direction;
}

function layOver<P extends Port>(port: P, sent: SentQuestion, payload: Buffer, payloadCap: number, notes: string[]) {
  if (payload.length === 0 || payload.equals(sent.payload)) return undefined;
  if (payload.length > payloadCap * JSON_ESCAPE_GROWTH) throw oversize(payload.length, payloadCap);
  const sentText = sent.payload.toString('utf8');
  const sentValue = JSON.parse(sentText) as JsonObject;
  const answer = readJsonObject(payload, 'payload', () => sentValue);
  requireKnownMember(port, answer.value);
  const mapping: PortMapping<P> = portMappings[port];
  const laid = mapping.layOver({ text: sentText, value: sentValue }, answer, (note) => notes.push(note));
  // Judged as we write it: Go's and Python's encoders escape what an unchanged text of the cap's size may be full of.
  const bytes = laid === undefined ? 0 : Buffer.byteLength(laid.text);
  if (bytes > payloadCap) throw oversize(bytes, payloadCap);
  return laid;
}

/** A value under other names would be dropped, and what it was to replace would go on as it was. */
function requireKnownMember(port: Port, value: JsonObject): void {
  const names = Object.keys(value);
  if (names.length === 0 || names.some((name) => MEMBERS[port].includes(name))) return;
  throw new InvalidAnswer(`payload has none of the members of ${port}: ${MEMBERS[port].join(', ')}`);
}

function oversize(bytes: number, cap: number): InvalidAnswer {
  return new InvalidAnswer(`payload has ${bytes} bytes, at most ${cap}`, 'oversize');
}

function skipResultOf(bytes: Buffer | undefined, cap: number): JsonValue {
  if (bytes === undefined || bytes.length === 0) return DEFAULT_SKIP_RESULT;
  if (bytes.length > cap) throw new InvalidAnswer(`skip_result has ${bytes.length} bytes, at most ${cap}`, 'oversize');
  return readJson(bytes, 'skip_result').value;
}

/** A plugin's reason made storable: well-formed, at most 1,024 UTF-16 units; undefined when empty. */
export function cutReason(reason: string | undefined): string | undefined {
  if (reason === undefined || reason === '') return undefined;
  const text = reason.length > MAX_REASON_LENGTH ? `${reason.slice(0, MAX_REASON_LENGTH - 1)}…` : reason;
  return wellFormedText(text);
}
