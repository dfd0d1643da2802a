import { isJsonObject, type JsonValue } from '@codedock/domain';
import { activeTrace } from '@codedock/platform';
import { plugin } from '@codedock/proto';
import { type Members, membersOf, oneLine } from './frame.js';
import { type Spool, SpoolError } from './spool.js';

const noBytes = Buffer.alloc(0);

/** Members an answered envelope may have: those it was asked with, which scripts send back whole. */
const envelopeMembers: ReadonlySet<string> = new Set([
  'type',
  'chain_id',
  'seen',
  'session_id',
  'run_id',
  'turn_id',
  'reason',
  'budget_ms',
  'attempt',
  'capability',
  'payload',
  'context',
  'principal',
  'skip_result',
  'event_id',
  'event_seq',
  'traceparent',
  'tracestate',
]);

/** An answer that cannot be one. */
export class InvalidResult extends Error {}

/** Params of `stage.invoke`, JSON text: the envelope's fields by name, bytes fields as JSON values. */
export async function stageParams(envelope: plugin.Envelope, spool: Spool): Promise<string> {
  return `{"stage":${JSON.stringify(envelope.type)},"envelope":${await envelopeText(envelope, spool)},"spool":${JSON.stringify(spool.path)}}`;
}

/** Params of `event.deliver`, JSON text. An event that nobody answers can have no file that accompanies it, so none has. */
export function eventParams(envelope: plugin.Envelope): string {
  const text = envelopeJson(
    envelope,
    valueText(envelope.payload),
    valueText(envelope.context),
    valueText(envelope.principal),
  );
  return `{"envelope":${withEvent(text, envelope)}}`;
}

/** Params of an `event.deliver` that is answered, JSON text. */
export async function deliverParams(envelope: plugin.Envelope, spool: Spool): Promise<string> {
  const text = withEvent(await envelopeText(envelope, spool), envelope);
  return `{"envelope":${text},"spool":${JSON.stringify(spool.path)}}`;
}

function withEvent(envelopeText: string, { eventId, eventSeq }: plugin.Envelope): string {
  if (eventId === '') return envelopeText;
  const event = JSON.stringify({ event_id: eventId, event_seq: eventSeq });
  return `${envelopeText.slice(0, -1)},${event.slice(1)}`;
}

/** Params of `tool.invoke`, JSON text. */
export async function toolParams(input: plugin.MethodInput, spool: Spool): Promise<string> {
  const fields = JSON.stringify({
    name: input.name,
    tool_call_id: input.callId,
    idempotency_key: input.idempotencyKey,
    attempt: input.attempt,
    session_id: input.sessionId,
    run_id: input.runId,
    turn_id: input.turnId,
    spool: spool.path,
    ...activeTrace(),
  });
  const args = input.arguments.length === 0 ? '{}' : await put(spool, input.arguments);
  return `${fields.slice(0, -1)},"args":${args},"principal":${await put(spool, input.principal)}}`;
}

/**
 * The envelope a `stage.invoke` was answered with. Fields that are absent or null are empty.
 * @throws InvalidResult or SpoolError naming the field that is wrong.
 */
export async function answeredEnvelope(result: Members, spool: Spool): Promise<plugin.Envelope> {
  const value = result.get('envelope');
  const raw = result.raw('envelope');
  if (!isJsonObject(value) || raw === undefined) throw new InvalidResult('the result has no "envelope" object');
  // A misspelt decision must not pass for none.
  requireMembers('the result', result.value, isEnvelope);
  requireMembers('the envelope', value, (name) => envelopeMembers.has(name));
  const envelope = membersOf(raw, value);
  const text = (name: string): string => {
    const member = envelope.get(name) ?? '';
    if (typeof member !== 'string') throw new InvalidResult(`"${name}" of the envelope is no text`);
    return member;
  };
  const [payload, context, skipResult] = await Promise.all(
    ['payload', 'context', 'skip_result'].map((name) => take(envelope, name, spool)),
  );
  return plugin.Envelope.fromPartial({
    type: text('type'),
    reason: text('reason'),
    chainId: text('chain_id'),
    payload: payload ?? noBytes,
    context: context ?? noBytes,
    skipResult: skipResult ?? noBytes,
  });
}

function isEnvelope(name: string): boolean {
  return name === 'envelope';
}

function requireMembers(what: string, value: JsonValue, isKnown: (name: string) => boolean): void {
  const unknown = Object.keys(isJsonObject(value) ? value : {}).find((name) => !isKnown(name));
  if (unknown === undefined) return;
  throw new InvalidResult(
    `${what} has the unknown member ${JSON.stringify(unknown.slice(0, 64))}; a decision is the envelope's "type"`,
  );
}

/** What `tool.invoke` was answered with. @throws InvalidResult or SpoolError. */
export async function toolResult(result: Members, spool: Spool): Promise<plugin.MethodResult> {
  if (!isJsonObject(result.value) || result.raw('result') === undefined)
    throw new InvalidResult('the result of tool.invoke has no member "result"');
  const output = await spool.take(result.get('result'), result.raw('result') ?? 'null');
  return { success: true, output, error: '' };
}

async function envelopeText(envelope: plugin.Envelope, spool: Spool): Promise<string> {
  const payload = await put(spool, envelope.payload);
  const context = await put(spool, envelope.context);
  return envelopeJson(envelope, payload, context, await put(spool, envelope.principal));
}

function envelopeJson(envelope: plugin.Envelope, payload: string, context: string, principal: string): string {
  const fields = JSON.stringify({
    type: envelope.type,
    chain_id: envelope.chainId,
    seen: envelope.seen,
    session_id: envelope.sessionId,
    run_id: envelope.runId,
    turn_id: envelope.turnId,
    reason: envelope.reason,
    budget_ms: envelope.budgetMs,
    attempt: envelope.attempt,
    capability: envelope.capability.toString('latin1'),
    ...activeTrace(),
  });
  return `${fields.slice(0, -1)},"payload":${payload},"context":${context},"principal":${principal},"skip_result":null}`;
}

async function put(spool: Spool, bytes: Buffer): Promise<string> {
  return spool.put(valueText(bytes));
}

/** What travels as bytes is JSON text wherever it travels; nothing is an empty object. */
function valueText(bytes: Buffer): string {
  return bytes.length === 0 ? '{}' : oneLine(bytes.toString('utf8'));
}

async function take(envelope: Members, name: string, spool: Spool): Promise<Buffer> {
  const value = envelope.get(name);
  if (value === undefined || value === null) return noBytes;
  return spool.take(value, envelope.raw(name) ?? 'null');
}

/** How an answer that could not be used is to be counted. */
export function failureOf(error: unknown): { readonly outcome: 'invalid' | 'oversize'; readonly reason: string } {
  if (error instanceof SpoolError) return { outcome: error.outcome, reason: error.message };
  const reason = error instanceof Error ? error.message : String(error);
  return {
    outcome: 'invalid',
    reason: error instanceof InvalidResult ? reason : `its answer cannot be read: ${reason}`,
  };
}
