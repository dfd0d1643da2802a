import { AppError, type Clock } from '@codedock/domain';
import { guardedAgent } from '@codedock/models';
import type { Logger } from '@codedock/platform';
import type { Store, TakenDelivery } from '@codedock/store';
import { type SecretTexts, webhookPlace } from '../secrets/secret-texts.js';
import { REFUSED_ADDRESS, type SentDelivery, sendDelivery } from './send-delivery.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Milliseconds between the eight attempts of a delivery: about a day in all. */
export const RETRY_DELAYS_MS: readonly number[] = [
  10 * SECOND,
  MINUTE,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  6 * HOUR,
  15 * HOUR,
];
const MAX_IN_FLIGHT = 32;
/** A slow receiver takes no more than this of what all share. */
const MAX_PER_WEBHOOK = 4;

export interface WebhookSenderOptions {
  readonly webhooks: Store['webhooks'];
  /** True while this process is the one that delivers. */
  readonly leading: () => boolean;
  /** Opens what the deliveries are signed with. */
  readonly texts: SecretTexts;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether private and loopback addresses may be reached. */
  readonly allowPrivate: boolean;
  /** How often to look for what is due, milliseconds; default 1,000. */
  readonly intervalMs?: number;
  /** Time of one attempt, milliseconds; default 10,000. */
  readonly timeoutMs?: number;
  /** Delays between attempts; one more attempt than there are delays. */
  readonly retryDelaysMs?: readonly number[];
}

/** A running sender. */
export interface WebhookSender {
  /** Stops attempts under way and waits until their outcome is stored. */
  stop(): Promise<void>;
}

/**
 * Tells webhooks of events, at least once: deliveries are made from a cursor over committed events, sent signed, tried
 * again with growing delays, given up at last. One process does it; should two for a moment, a delivery is still taken
 * by one of them.
 */
export function startWebhookSender(options: WebhookSenderOptions): WebhookSender {
  const { webhooks, clock, logger } = options;
  const timeoutMs = options.timeoutMs ?? 10 * SECOND;
  const delays = options.retryDelaysMs ?? RETRY_DELAYS_MS;
  const stopping = new AbortController();
  const inFlight = new Map<Promise<void>, string>();
  const dispatcher = guardedAgent({
    privateNetwork: options.allowPrivate,
    loopback: options.allowPrivate,
    refusal: () =>
      new AppError(
        REFUSED_ADDRESS,
        'The address leads into a private network; CODEDOCK_WEBHOOK_ALLOW_PRIVATE allows that.',
      ),
  });
  let wake = new AbortController();

  const attempt = async (delivery: TakenDelivery): Promise<SentDelivery> => {
    const { event, tenantId, webhookId } = delivery;
    if (event === undefined) return { ok: false, gone: false, error: 'The event is not kept any more.' };
    let secret: string;
    try {
      secret = options.texts.open(delivery.secret, webhookPlace(tenantId, webhookId));
    } catch (error) {
      logger.error({ err: error, webhookId }, 'a webhook cannot be told: its secret cannot be opened');
      return {
        ok: false,
        gone: false,
        error: 'The secret to sign with cannot be opened; its encryption key is missing.',
      };
    }
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(timeoutMs)]);
    return sendDelivery({ ...delivery, secret, event }, { nowMs: clock.now(), dispatcher, signal });
  };

  const send = async (delivery: TakenDelivery): Promise<void> => {
    const { event } = delivery;
    const sent = await attempt(delivery);
    const againMs = event === undefined ? undefined : delays[delivery.attempt - 1];
    const { disabled } = await webhooks.settle({
      id: delivery.id,
      ...sent,
      ...(sent.ok || sent.gone || againMs === undefined ? {} : { againMs: Math.round(againMs * jitter()) }),
    });
    const told = { webhookId: delivery.webhookId, deliveryId: delivery.id, attempt: delivery.attempt };
    if (disabled !== undefined) logger.warn({ ...told, reason: disabled }, 'a webhook was disabled');
    else if (!sent.ok) logger.info({ ...told, reason: sent.error }, 'a webhook was not told');
  };

  const begin = (delivery: TakenDelivery): void => {
    const sending = send(delivery)
      // Due again when its time is over.
      .catch((error: unknown) => logger.warn({ err: error, deliveryId: delivery.id }, 'a delivery is not settled'))
      .finally(() => {
        inFlight.delete(sending);
        wake.abort();
      });
    inFlight.set(sending, delivery.webhookId);
  };

  const pass = async (): Promise<void> => {
    await webhooks.fanOut();
    if (inFlight.size >= MAX_IN_FLIGHT) return;
    const taken = await webhooks.take({
      limit: MAX_IN_FLIGHT - inFlight.size,
      perWebhook: MAX_PER_WEBHOOK,
      holdMs: timeoutMs + 30 * SECOND,
      except: busyWebhooks(inFlight.values()),
    });
    for (const delivery of taken) begin(delivery);
  };

  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      // An attempt that ends makes room for the next one: no need to wait for the interval.
      wake = new AbortController();
      try {
        if (options.leading()) await pass();
      } catch (error) {
        logger.warn({ err: error }, 'webhooks are late');
      }
      await clock.sleep(options.intervalMs ?? SECOND, AbortSignal.any([stopping.signal, wake.signal]));
    }
    await Promise.all(inFlight.keys());
    await dispatcher.close();
  };
  const done = loop();
  return {
    stop() {
      stopping.abort();
      return done;
    },
  };
}

/** Webhooks that may not have more under way. */
function busyWebhooks(underWay: Iterable<string>): string[] {
  const counts = new Map<string, number>();
  for (const id of underWay) counts.set(id, (counts.get(id) ?? 0) + 1);
  return [...counts].flatMap(([id, count]) => (count >= MAX_PER_WEBHOOK ? [id] : []));
}

/** Receivers that failed together are not all asked again at once. */
function jitter(): number {
  return 0.9 + Math.random() * 0.2;
}
