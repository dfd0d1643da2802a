import type { Database } from './database.js';
import { existing, missing } from './identity.js';
import {
  type PrunedBatch,
  RETAINED,
  type Retained,
  type RetentionDays,
  type RetentionStore,
} from './retention-contract.js';

type DaysRow = Record<Retained, number | null>;

const COLUMNS = { events: 'event_retention_days', audit: 'audit_retention_days', messages: 'message_retention_days' };
const SHOWN = RETAINED.map((kind) => `${COLUMNS[kind]} AS ${kind}`).join(', ');
const BEFORE = "codedock_now() - $2::float8 * interval '1 day'";
/** Before every id. */
const FIRST = '00000000-0000-0000-0000-000000000000';

/** Deletes by age. The walk's position is the caller's, so that a batch is one statement. */
export function retentionStore(database: Database): RetentionStore {
  async function walk(name: string, tenantId: string, days: number, after: string, limit: number) {
    const [row] = await database.rows<{ batch: PrunedBatch }>(`SELECT ${name}($1, ${BEFORE}, $3, $4) AS batch`, [
      tenantId,
      days,
      after,
      limit,
    ]);
    return row?.batch ?? { pruned: 0 };
  }
  return {
    async days(tenantId) {
      const [row] = await database.rows<DaysRow>(`SELECT ${SHOWN} FROM tenants WHERE id = $1`, [
        existing('tenant', tenantId),
      ]);
      if (row === undefined) throw missing('tenant', tenantId);
      return daysOf(row);
    },

    async setDays({ tenantId, days, actor }) {
      existing('tenant', tenantId);
      const changed = RETAINED.filter((kind) => days[kind] !== undefined);
      if (changed.length === 0) return this.days(tenantId);
      const [row] = await database.rows<DaysRow>(
        `WITH changed AS (
           UPDATE tenants SET ${changed.map((kind, index) => `${COLUMNS[kind]} = $${index + 4}`).join(', ')}
           WHERE id = $1 RETURNING *), audited AS (
           INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
             SELECT id, $2, 'retention.set', 'retention', $3::jsonb FROM changed)
         SELECT ${SHOWN} FROM changed`,
        [
          tenantId,
          actor,
          JSON.stringify(Object.fromEntries(changed.map((kind) => [kind, days[kind]]))),
          ...changed.map((kind) => days[kind]),
        ],
      );
      if (row === undefined) throw missing('tenant', tenantId);
      return daysOf(row);
    },

    async tenants() {
      const rows = await database.rows<DaysRow & { id: string }>(`SELECT id, ${SHOWN} FROM tenants ORDER BY id`, []);
      return rows.map((row) => ({ tenantId: row.id, days: daysOf(row) }));
    },

    pruneEvents: ({ tenantId, olderThanDays, after = FIRST, limit }) =>
      walk('codedock_prune_events', tenantId, olderThanDays, after, limit),

    pruneMessages: ({ tenantId, olderThanDays, after = FIRST, limit }) =>
      walk('codedock_prune_messages', tenantId, olderThanDays, after, limit),

    async pruneAudit({ tenantId, olderThanDays, limit }) {
      const [row] = await database.rows<{ pruned: number }>(
        `SELECT codedock_prune_audit($1, ${BEFORE}, $3) AS pruned`,
        [tenantId, olderThanDays, limit],
      );
      return row?.pruned ?? 0;
    },

    async pruneExpired(limit) {
      const expired = async (table: string) => {
        const rows = await database.rows(
          `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE expires_at < clock_timestamp()
             LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING 1`,
          [limit],
        );
        return rows.length;
      };
      return { idempotencyKeys: await expired('idempotency_keys'), streamTokens: await expired('stream_tokens') };
    },

    async pruneOrphanedMemory() {
      await database.rows(
        `DELETE FROM memory m WHERE m.scope = 'session' AND NOT EXISTS (
           SELECT 1 FROM sessions s WHERE s.id::text = m.owner AND s.tenant_id = m.tenant_id)`,
        [],
      );
    },
  };
}

function daysOf(row: DaysRow): RetentionDays {
  return Object.fromEntries(RETAINED.flatMap((kind) => (row[kind] === null ? [] : [[kind, row[kind]]])));
}
