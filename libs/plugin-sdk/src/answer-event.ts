import type { plugin } from '@codedock/proto';
import type { CompiledPlugin } from './compiled-plugin.js';
import type { IncomingCall } from './incoming-call.js';
import { isJsonObject, type JsonValue, readObject, readValue } from './json.js';
import { Answer } from './ports/answer.js';
import { ReceivedContext, ReceivedQuestion } from './received-question.js';
import { QuestionScratchpad } from './scratchpad.js';

const noBytes = Buffer.alloc(0);

/**
 * Asks the plugin's handler and writes its answer. An unchanged answer carries no payload, an untouched scratchpad no
 * context. A port or event without a handler is answered as unchanged.
 * @throws what the handler throws, or a TypeError for a question that cannot be read.
 */
export async function answerEvent(
  compiled: CompiledPlugin,
  envelope: plugin.Envelope,
  call: IncomingCall,
): Promise<plugin.Envelope> {
  const context = new QuestionScratchpad(envelope.context);
  const notice = compiled.notices.get(envelope.type);
  if (notice !== undefined) {
    const value = envelope.payload.length === 0 ? {} : readValue(envelope.payload, `the payload of ${envelope.type}`);
    const payload = isJsonObject(value) ? value : { value };
    const received = new ReceivedContext(envelope, call);
    const { sessionId, runId, turnId, principal, signal, budgetMs, host } = received;
    const of = { sessionId, runId, turnId, principal, signal, budgetMs, host };
    const { type: event, eventId, eventSeq: seq } = envelope;
    await notice({ ...of, event, eventId, seq, payload, context: { get: (key) => context.get(key) } });
    return continued(envelope);
  }
  const ask = compiled.ports.get(envelope.type);
  if (ask === undefined) return continued(envelope);
  const answer = await ask(new ReceivedQuestion(envelope, call, readPayload(envelope), context));
  if (answer === undefined) return { ...continued(envelope), context: context.encodeChanges() };
  if (!(answer instanceof Answer)) {
    throw new TypeError(
      `the handler of ${envelope.type} answered something else than its input's reply() or a decision`,
    );
  }
  const { type, reason = '', change, skipResult } = answer.parts;
  const payload = change?.(readPayload(envelope));
  return {
    ...continued(envelope),
    type: type === '' ? envelope.type : type,
    reason,
    payload: payload === undefined ? noBytes : encode(payload),
    context: context.encodeChanges(),
    skipResult: skipResult === undefined ? noBytes : encode(skipResult),
  };
}

function continued({ type, chainId, sessionId, runId, turnId }: plugin.Envelope): plugin.Envelope {
  return {
    type,
    chainId,
    seen: [],
    sessionId,
    runId,
    turnId,
    payload: noBytes,
    context: noBytes,
    reason: '',
    budgetMs: 0,
    attempt: 0,
    principal: noBytes,
    capability: noBytes,
    skipResult: noBytes,
    eventId: '',
    eventSeq: 0,
  };
}

function readPayload(envelope: plugin.Envelope) {
  return readObject(envelope.payload, `the payload of ${envelope.type}`);
}

function encode(value: JsonValue): Buffer {
  return Buffer.from(JSON.stringify(value));
}
