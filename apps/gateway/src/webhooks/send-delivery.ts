import type { LedgerEvent } from '@codedock/domain';
import { type Dispatcher, fetch } from 'undici';
import { signedHeaders } from './signature.js';

/** What became of one attempt. `gone`: the receiver wants no more, ever. */
export interface SentDelivery {
  readonly ok: boolean;
  readonly gone: boolean;
  readonly status?: number;
  readonly error?: string;
}

/** One event for one receiver. */
export interface OutgoingDelivery {
  readonly id: string;
  readonly url: string;
  readonly secret: string;
  readonly event: LedgerEvent;
}

/** POSTs an event once; redirects are not followed and the answer's body is not read. Never rejects. */
export async function sendDelivery(
  { id, url, secret, event }: OutgoingDelivery,
  at: { readonly nowMs: number; readonly dispatcher: Dispatcher; readonly signal: AbortSignal },
): Promise<SentDelivery> {
  const body = JSON.stringify({ type: event.type, timestamp: event.occurredAt, data: event });
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'CodeDock-Webhook',
        ...signedHeaders(secret, { id, sentAtMs: at.nowMs, body }),
      },
      body,
      redirect: 'manual',
      dispatcher: at.dispatcher,
      signal: at.signal,
    });
    await response.body?.cancel().catch(() => undefined);
    const { status, ok } = response;
    if (ok) return { ok, gone: false, status };
    return { ok, gone: status === 410, status, error: `The receiver answered ${status}.` };
  } catch (error) {
    return { ok: false, gone: false, error: reasonOf(error) };
  }
}

/** Why nothing came back, in words that hold nothing of the receiver's. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'The receiver cannot be reached.';
  if (error.name === 'TimeoutError') return 'The receiver did not answer in time.';
  if (error.name === 'AbortError') return 'The attempt was stopped: the gateway is stopping.';
  const cause = error.cause instanceof Error ? error.cause : error;
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
  if (code === REFUSED_ADDRESS) return cause.message;
  return `The receiver cannot be reached${code === undefined ? '' : ` (${code})`}.`;
}

/** Code of the error with which a connection into a private network is refused. */
export const REFUSED_ADDRESS = 'forbidden';
