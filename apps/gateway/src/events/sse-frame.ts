import type { LedgerEvent } from '@codedock/domain';

/** Keeps idle connections open through proxies; clients ignore comments. */
export const HEARTBEAT_FRAME = ': heartbeat\n\n';

/** First bytes of a stream: how long a browser waits before it reconnects. */
export const OPENING_FRAME = 'retry: 1000\n\n';

/**
 * Told in place of events that are not kept any more. Its id is the last of them, so that a client that comes back is
 * not told again. No ledger event: it is nowhere stored.
 */
export function prunedFrame(sessionId: string, after: number, prunedSeq: number): string {
  return `id: ${prunedSeq}\nevent: events.pruned\ndata: ${JSON.stringify({ sessionId, after, prunedSeq })}\n\n`;
}

/** Last frame of a stream whose session was deleted; without an id, for there is nothing to come back to. */
export function deletedFrame(sessionId: string): string {
  return `event: session.deleted\ndata: ${JSON.stringify({ sessionId })}\n\n`;
}

const encoded = new WeakMap<LedgerEvent, string>();

/**
 * One ledger event as a frame of `text/event-stream`. JSON escapes every line break, so whatever a model or tool said
 * stays inside the one data line. Encoded once per event, however many clients follow the session.
 */
export function sseFrame(event: LedgerEvent): string {
  const known = encoded.get(event);
  if (known !== undefined) return known;
  const frame = `id: ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(shown(event))}\n\n`;
  encoded.set(event, frame);
  return frame;
}

/** An event with exactly the members clients see, in their order. */
export function shown(event: LedgerEvent): object {
  return {
    eventId: event.eventId,
    sessionId: event.sessionId,
    ...(event.runId === undefined ? {} : { runId: event.runId }),
    ...(event.turnId === undefined ? {} : { turnId: event.turnId }),
    ...(event.attempt === undefined ? {} : { attempt: event.attempt }),
    seq: event.seq,
    type: event.type,
    version: event.version,
    occurredAt: event.occurredAt,
    payload: event.payload,
  };
}
