import type { LiveBus, SessionPush } from '@codedock/domain';
import { asError, type QueueReporter } from '../queue-reporter.js';
import { within } from '../within.js';
import { Audience } from './audience.js';
import { PushCoalescer } from './coalescer.js';
import { PersistentClient } from './persistent-client.js';
import { decode, encodeCancel, encodeSession } from './wire.js';

const CHANNEL = 'codedock_live';
/** PostgreSQL refuses payloads of 8,000 bytes and more. */
const PAYLOAD_LIMIT = 7_900;

/**
 * The bus on LISTEN/NOTIFY. NOTIFY takes a database-wide lock until its commit, so it never rides in a transaction that
 * stores something: a connection of its own notifies after the commit, many sessions in one statement, without waiting
 * for the disk.
 */
export async function openPostgresBus(url: string, report?: QueueReporter): Promise<LiveBus> {
  const audience = new Audience();
  const onError = (error: Error) => report?.({ kind: 'bus_error', error });
  const notifier = new PersistentClient({
    url,
    name: 'codedock-bus-notify',
    onError,
    async prepare(client) {
      await client.query('set synchronous_commit = off');
    },
  });
  const listener = new PersistentClient({
    url,
    name: 'codedock-bus-listen',
    onError,
    async prepare(client) {
      client.on('notification', (message) => {
        if (message.channel === CHANNEL && message.payload !== undefined) audience.tell(decode(message.payload));
      });
      await client.query(`listen ${CHANNEL}`);
    },
    onReconnected() {
      report?.({ kind: 'bus_reconnected' });
      audience.tellReconnected();
    },
  });
  try {
    await Promise.all([notifier.start(), listener.start()]);
  } catch (error) {
    await Promise.all([notifier.close(), listener.close()]);
    throw error;
  }

  const notify = async (payloads: readonly string[]) => {
    // What is pushed while the connection is away is lost; the readers' poll of the newest seq finds it.
    await notifier.current?.query('select pg_notify($1, payload) from unnest($2::text[]) as payload', [
      CHANNEL,
      payloads,
    ]);
  };
  const coalescer = new PushCoalescer(
    (pushes: readonly SessionPush[]) => notify(pushes.map((push) => encodeSession(push, PAYLOAD_LIMIT))),
    { onError },
  );

  let closed: Promise<void> | undefined;
  return {
    publish: (push) => coalescer.add(push),
    publishCancel(push) {
      notify([encodeCancel(push)]).catch((error: unknown) => onError(asError(error)));
    },
    // LISTEN is on for the whole process, so a subscription is active as soon as it is noted.
    async subscribe(sessionId, onPush) {
      return audience.addSession(sessionId, onPush);
    },
    async subscribeCancels(onCancel) {
      return audience.addCancel(onCancel);
    },
    onReconnected: (told) => audience.addReconnection(told),
    close() {
      closed ??= within(coalescer.idle(), 500, () => new Error('not flushed in time'))
        .catch(() => undefined)
        .then(async () => {
          await Promise.all([notifier.close(), listener.close()]);
        });
      return closed;
    },
  };
}
