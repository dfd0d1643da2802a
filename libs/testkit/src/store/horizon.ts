import type { Client } from 'pg';
import { eventually } from '../processes/eventually.js';

/**
 * Waits until every transaction that is open on the server now, in whatever database, has ended. Readers that stop at the
 * oldest open transaction (deliveries do, so as to miss none that commits late) then see all that is committed; suites side
 * by side on one server hold each other's readers back for moments.
 */
export async function awaitHorizon(client: Client): Promise<void> {
  const { rows } = await client.query<{ id: string }>('SELECT pg_current_xact_id()::text AS id');
  await eventually(
    async () => {
      const passed = await client.query<{ passed: boolean }>(
        'SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 AS passed',
        [rows[0]?.id],
      );
      return passed.rows[0]?.passed === true;
    },
    { timeoutMs: 60_000, what: 'the end of the transactions that are open on this server' },
  );
}
