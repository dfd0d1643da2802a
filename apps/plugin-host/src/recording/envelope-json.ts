import type { JsonObject, JsonValue } from '@codedock/domain';
import { plugin } from '@codedock/proto';

/** An envelope by the names of its fields, its JSON members as values; what is empty is left out. No capability. */
export interface EnvelopeJson {
  readonly type: string;
  readonly chain_id?: string;
  readonly seen?: readonly string[];
  readonly session_id?: string;
  readonly run_id?: string;
  readonly turn_id?: string;
  readonly payload?: JsonValue;
  readonly context?: JsonValue;
  readonly reason?: string;
  readonly budget_ms?: number;
  readonly attempt?: number;
  readonly principal?: JsonValue;
  readonly skip_result?: JsonValue;
  /** Of a ledger event. */
  readonly event_id?: string;
  readonly event_seq?: number;
}

const noBytes = Buffer.alloc(0);

/** The envelope as it is written down. Bytes that are no JSON are left out. */
export function envelopeJson(envelope: plugin.Envelope): EnvelopeJson {
  const { type, chainId, seen, sessionId, runId, turnId, reason, budgetMs, attempt, eventId, eventSeq } = envelope;
  return {
    type,
    ...(chainId === '' ? {} : { chain_id: chainId }),
    ...(seen.length === 0 ? {} : { seen: [...seen] }),
    ...(sessionId === '' ? {} : { session_id: sessionId }),
    ...(runId === '' ? {} : { run_id: runId }),
    ...(turnId === '' ? {} : { turn_id: turnId }),
    ...memberOf('payload', envelope.payload),
    ...memberOf('context', envelope.context),
    ...(reason === '' ? {} : { reason }),
    ...(budgetMs === 0 ? {} : { budget_ms: budgetMs }),
    ...(attempt === 0 ? {} : { attempt }),
    ...memberOf('principal', envelope.principal),
    ...memberOf('skip_result', envelope.skipResult),
    ...(eventId === '' ? {} : { event_id: eventId }),
    ...(eventSeq === 0 ? {} : { event_seq: eventSeq }),
  };
}

/** The envelope that was written down. */
export function envelopeOf(json: EnvelopeJson): plugin.Envelope {
  return plugin.Envelope.fromPartial({
    type: json.type,
    chainId: json.chain_id ?? '',
    seen: [...(json.seen ?? [])],
    sessionId: json.session_id ?? '',
    runId: json.run_id ?? '',
    turnId: json.turn_id ?? '',
    payload: bytesOf(json.payload),
    context: bytesOf(json.context),
    reason: json.reason ?? '',
    budgetMs: json.budget_ms ?? 0,
    attempt: json.attempt ?? 0,
    principal: bytesOf(json.principal),
    skipResult: bytesOf(json.skip_result),
    eventId: json.event_id ?? '',
    eventSeq: json.event_seq ?? 0,
  });
}

function memberOf(name: string, bytes: Buffer): JsonObject {
  if (bytes.length === 0) return {};
  try {
    return { [name]: JSON.parse(bytes.toString('utf8')) as JsonValue };
  } catch {
    return {};
  }
}

function bytesOf(value: JsonValue | undefined): Buffer {
  return value === undefined ? noBytes : Buffer.from(JSON.stringify(value));
}
