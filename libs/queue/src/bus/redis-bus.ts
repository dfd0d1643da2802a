import type { LiveBus, SessionPush } from '@codedock/domain';
import { asError, type QueueReporter } from '../queue-reporter.js';
import { REDIS_PREFIX, redisClient, SILENCE_MS } from '../redis/redis-client.js';
import { CONNECT_TIMEOUT_MS } from '../run-queue.js';
import { within } from '../within.js';
import { Audience } from './audience.js';
import { PushCoalescer } from './coalescer.js';
import { decode, encodeCancel, encodeSession } from './wire.js';

/** Events larger than this are read from the database instead, bytes. */
const PAYLOAD_LIMIT = 64 * 1024;
const SUBSCRIBE_TIMEOUT_MS = 1_000;
/** Who only listens asks nothing that could be missed: so often it asks whether the server is there, milliseconds. */
const PING_MS = 5_000;
const CANCEL_CHANNEL = `${REDIS_PREFIX}:cancel`;
const channelOf = (sessionId: string) => `${REDIS_PREFIX}:session:${sessionId}`;

/** The bus on Redis pub/sub: one connection publishes, one listens, one channel per session. */
export async function openRedisBus(url: string, report?: QueueReporter): Promise<LiveBus> {
  const audience = new Audience();
  const onError = (error: unknown) => report?.({ kind: 'bus_error', error: asError(error) });
  const common = {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    autoResubscribe: false,
    keepAlive: 10_000,
    socketTimeout: SILENCE_MS,
  };
  const publisher = redisClient(url, { ...common, enableOfflineQueue: false, maxRetriesPerRequest: 0 });
  const listener = redisClient(url, { ...common, maxRetriesPerRequest: null });
  publisher.on('error', onError);
  listener.on('error', onError);
  listener.on('message', (_channel, text) => audience.tell(decode(text)));
  try {
    await within(
      Promise.all([publisher.connect(), listener.connect()]),
      CONNECT_TIMEOUT_MS,
      () => new Error('not connected in time'),
    );
  } catch (error) {
    publisher.disconnect();
    listener.disconnect();
    throw error;
  }

  const pinging = setInterval(() => {
    if (listener.status === 'ready') listener.ping().catch(onError);
  }, PING_MS).unref();
  let cancelListeners = 0;
  const channels = () => [...audience.sessions().map(channelOf), ...(cancelListeners > 0 ? [CANCEL_CHANNEL] : [])];
  listener.on('ready', () => {
    const wanted = channels();
    const subscribed = wanted.length === 0 ? Promise.resolve() : listener.subscribe(...wanted);
    subscribed.then(() => {
      report?.({ kind: 'bus_reconnected' });
      audience.tellReconnected();
    }, onError);
  });
  // While the connection is away the promise of a subscription does not hold anyone up: on its return all channels are
  // subscribed before readers are told to read the database again.
  const subscribe = (channel: string) =>
    within(listener.subscribe(channel), SUBSCRIBE_TIMEOUT_MS, () => new Error('not subscribed in time')).catch(onError);
  const unsubscribe = (channel: string) => {
    if (listener.status === 'ready') listener.unsubscribe(channel).catch(onError);
  };

  const publishAll = async (pushes: readonly SessionPush[]) => {
    const pipeline = publisher.pipeline();
    for (const push of pushes) pipeline.publish(channelOf(push.sessionId), encodeSession(push, PAYLOAD_LIMIT));
    // A pipeline resolves whatever its commands came to, such as a PUBLISH that this user may not send.
    for (const [error] of (await pipeline.exec()) ?? []) if (error !== null) throw error;
  };
  const coalescer = new PushCoalescer(publishAll, { onError });

  let closed: Promise<void> | undefined;
  return {
    publish: (push) => coalescer.add(push),
    publishCancel(push) {
      publisher.publish(CANCEL_CHANNEL, encodeCancel(push)).catch(onError);
    },
    async subscribe(sessionId, onPush) {
      const first = !audience.hasSession(sessionId);
      const remove = audience.addSession(sessionId, onPush);
      // A second reader of the channel awaits its own acknowledgement: the first one's may still be on its way.
      await subscribe(channelOf(sessionId));
      if (first && !audience.hasSession(sessionId)) unsubscribe(channelOf(sessionId));
      return () => {
        remove();
        if (!audience.hasSession(sessionId)) unsubscribe(channelOf(sessionId));
      };
    },
    async subscribeCancels(onCancel) {
      const remove = audience.addCancel(onCancel);
      cancelListeners += 1;
      await subscribe(CANCEL_CHANNEL);
      return () => {
        remove();
        cancelListeners -= 1;
        if (cancelListeners === 0) unsubscribe(CANCEL_CHANNEL);
      };
    },
    onReconnected: (told) => audience.addReconnection(told),
    close() {
      closed ??= within(coalescer.idle(), 500, () => new Error('not flushed in time'))
        .catch(() => undefined)
        .then(() => {
          clearInterval(pinging);
          publisher.disconnect();
          listener.disconnect();
        });
      return closed;
    },
  };
}
