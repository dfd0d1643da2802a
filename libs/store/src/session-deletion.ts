import { isId } from '@codedock/domain';
import type { Database } from './database.js';
import { existing } from './identity.js';
import type { SessionDeletionStore } from './retention-contract.js';

/** Deletes sessions. */
export function sessionDeletionStore(database: Database): SessionDeletionStore {
  return {
    async begin({ tenantId, sessionId, actor }) {
      await database.rows('SELECT codedock_begin_deleting($1, $2, $3, $4)', [
        tenantId,
        existing('session', sessionId),
        actor.name,
        actor.id,
      ]);
    },

    async some(tenantId, sessionId, limit) {
      if (!isId(sessionId)) return true;
      const [row] = await database.rows<{ gone: boolean }>('SELECT codedock_delete_some($1, $2, $3) AS gone', [
        tenantId,
        sessionId,
        limit,
      ]);
      return row?.gone === true;
    },

    async pending(limit) {
      const rows = await database.rows<{ tenant_id: string; id: string }>(
        'SELECT tenant_id, id FROM sessions WHERE deleting_at IS NOT NULL ORDER BY deleting_at LIMIT $1',
        [limit],
      );
      return rows.map((row) => ({ tenantId: row.tenant_id, sessionId: row.id }));
    },
  };
}
