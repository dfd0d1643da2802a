import { runMigrations } from 'bullmq';
import { Client } from 'pg';
import { queueBackendOf } from './queue-backend.js';

/** Schema of BullMQ's own tables and functions, beside the product's in the same database. */
export const QUEUE_SCHEMA = 'bullmq';

/**
 * Creates or upgrades BullMQ's tables and functions. For the migration job only: services refuse to start on a schema
 * that is missing or too new. Safe to run from several processes at once; does nothing for a Redis URL.
 */
export async function prepareQueueSchema(url: string): Promise<void> {
  if (queueBackendOf(url) === 'redis') return;
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'codedock-queue-migrate',
  });
  await client.connect();
  try {
    await runMigrations(client, QUEUE_SCHEMA);
  } finally {
    await client.end();
  }
}
