import { plugin } from '@codedock/proto';
import { type JsonObject, type JsonValue, readValue } from '../json.js';

/** An envelope by the names of its fields, its JSON members as values. Absent members are empty. */
export interface EnvelopeJson {
  readonly type: string;
  readonly chain_id?: string;
  readonly seen?: readonly string[];
  readonly session_id?: string;
  readonly run_id?: string;
  readonly turn_id?: string;
  readonly payload?: JsonValue;
  readonly context?: JsonObject;
  readonly reason?: string;
  readonly budget_ms?: number;
  readonly attempt?: number;
  readonly principal?: JsonObject;
  readonly skip_result?: JsonValue;
  readonly event_id?: string;
  readonly event_seq?: number;
}

const noBytes = Buffer.alloc(0);

/** The envelope as it travels. */
export function toEnvelope(json: EnvelopeJson): plugin.Envelope {
  return plugin.Envelope.create({
    type: json.type,
    chainId: json.chain_id ?? '',
    seen: [...(json.seen ?? [])],
    sessionId: json.session_id ?? '',
    runId: json.run_id ?? '',
    turnId: json.turn_id ?? '',
    payload: encode(json.payload),
    context: encode(json.context),
    reason: json.reason ?? '',
    budgetMs: json.budget_ms ?? 0,
    attempt: json.attempt ?? 0,
    principal: encode(json.principal),
    skipResult: encode(json.skip_result),
    eventId: json.event_id ?? '',
    eventSeq: json.event_seq ?? 0,
  });
}

/** The JSON in some bytes of an envelope; undefined when there are none. */
export function decoded(bytes: Uint8Array): JsonValue | undefined {
  return bytes.length === 0 ? undefined : readValue(bytes, 'a member of the envelope');
}

/** An envelope that went over the wire. */
export function overTheWire(envelope: plugin.Envelope): plugin.Envelope {
  return plugin.Envelope.decode(plugin.Envelope.encode(envelope).finish());
}

function encode(value: JsonValue | undefined): Buffer {
  return value === undefined ? noBytes : Buffer.from(JSON.stringify(value));
}
