import pg from 'pg';
import type { Leadership } from './contract.js';
import { databaseError } from './database-error.js';

/** Longest time for the connection, and then for its statement, milliseconds. */
const TIMEOUT_MS = 5_000;

/** Tries to hold the advisory lock of a name on a connection of its own; the lock lives as long as the connection. */
export async function lead(url: string, name: string, timeoutMs = TIMEOUT_MS): Promise<Leadership | undefined> {
  const client = new pg.Client({
    connectionString: url,
    application_name: `codedock ${name}`,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  });
  let held = false;
  const lost = () => {
    held = false;
  };
  client.on('error', lost);
  client.on('end', lost);
  try {
    await client.connect();
    const { rows } = await client.query<{ locked: boolean }>(
      'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS locked',
      [`codedock:${name}`],
    );
    held = rows[0]?.locked === true;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw databaseError(error);
  }
  if (!held) {
    await client.end();
    return undefined;
  }
  return {
    get held() {
      return held;
    },
    async release() {
      await client.end().catch(() => undefined);
    },
  };
}
