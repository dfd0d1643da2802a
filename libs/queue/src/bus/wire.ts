import type { CancelPush, LedgerEvent, SessionPush } from '@codedock/domain';

/** A message of the bus as text: short keys, since PostgreSQL carries at most 8,000 bytes. */
type Wire = { readonly s: string; readonly q: number; readonly e?: readonly LedgerEvent[] } | { readonly c: string };

/** A push as text of at most `limit` bytes: its events are left out when they do not fit. */
export function encodeSession(push: SessionPush, limit: number): string {
  const bare: Wire = { s: push.sessionId, q: push.lastSeq };
  if (push.events !== undefined && push.events.length > 0) {
    const full = JSON.stringify({ ...bare, e: push.events } satisfies Wire);
    if (Buffer.byteLength(full) <= limit) return full;
  }
  return JSON.stringify(bare);
}

/** A cancel as text. */
export function encodeCancel(push: CancelPush): string {
  return JSON.stringify({ c: push.runId } satisfies Wire);
}

export type BusMessage = { readonly session: SessionPush } | { readonly cancel: CancelPush };

/** What a text of the bus says; undefined for text of another sender. */
export function decode(text: string): BusMessage | undefined {
  let wire: Partial<{ s: unknown; q: unknown; e: unknown; c: unknown }> | null;
  try {
    wire = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof wire !== 'object' || wire === null) return undefined;
  if (typeof wire.c === 'string') return { cancel: { runId: wire.c } };
  if (typeof wire.s !== 'string' || typeof wire.q !== 'number') return undefined;
  const events = Array.isArray(wire.e) ? { events: wire.e as LedgerEvent[] } : {};
  return { session: { sessionId: wire.s, lastSeq: wire.q, ...events } };
}
