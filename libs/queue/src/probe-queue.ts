import { AppError } from '@codedock/domain';
import { Client } from 'pg';
import { queueBackendOf } from './queue-backend.js';
import { QUEUE_SCHEMA } from './queue-schema.js';
import { requireNoEviction } from './redis/require-no-eviction.js';

const TIMEOUT_MS = 5_000;

/**
 * Looks whether the queue could be used, without using it.
 * @throws AppError `queue_unavailable` or `config_invalid` with the remedy.
 */
export async function probeQueue(url: string): Promise<void> {
  if (queueBackendOf(url) === 'redis') return requireNoEviction(url, TIMEOUT_MS);
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
    application_name: 'codedock-queue-probe',
  });
  client.on('error', () => undefined);
  let present: boolean | undefined;
  try {
    await client.connect();
    const { rows } = await client.query<{ present: boolean }>('SELECT to_regnamespace($1) IS NOT NULL AS present', [
      QUEUE_SCHEMA,
    ]);
    present = rows[0]?.present;
  } catch (cause) {
    throw new AppError('queue_unavailable', 'PostgreSQL at QUEUE_URL cannot be reached: check address and password.', {
      cause,
    });
  } finally {
    await client.end().catch(() => undefined);
  }
  if (present !== true)
    throw new AppError('queue_unavailable', 'The tables of the queue are missing: run `npm run migrate`.');
}
