import { isId } from '@codedock/domain';
import type { AdminAct, AuditStore, StoredRecord } from './audit-contract.js';
import type { Database } from './database.js';
import { INSTALLATION } from './installation.js';

const VIEW = `jsonb_strip_nulls(jsonb_build_object(
  'id', h.id::text, 'gate', h.gate, 'port', h.port, 'hook', h.hook, 'version', h.version,
  'policyVersion', h.policy_version, 'generation', h.generation, 'outcome', h.outcome, 'reason', h.reason,
  'startedMs', h.started_ms, 'durationMs', h.duration_ms, 'queueMs', h.queue_ms, 'runId', h.run_id,
  'turnId', h.turn_id, 'callId', h.call_id, 'requestId', h.request_id, 'attempt', h.attempt,
  'occurredAt', codedock_time(h.occurred_at)))`;

/** Audit of gates and of administrators. */
export function auditStore(database: Database): AuditStore {
  async function page(column: 'run_id' | 'session_id', id: string, tenantId: string, after: string, limit: number) {
    if (!isId(id) || !/^\d{1,18}$/.test(after)) return [];
    const rows = await database.rows<{ record: StoredRecord }>(
      `SELECT ${VIEW} AS record FROM hook_audit h
       WHERE h.${column} = $1 AND h.tenant_id = $2 AND h.id > $3 ORDER BY h.id LIMIT $4`,
      [id, tenantId, after, limit],
    );
    return rows.map((row) => row.record);
  }
  return {
    async insert(records) {
      if (records.length === 0) return;
      await database.rows('SELECT codedock_store_records($1::jsonb, NULL, codedock_now())', [JSON.stringify(records)]);
    },
    byRun: ({ tenantId, runId, after, limit }) => page('run_id', runId, tenantId, after ?? '0', limit),
    bySession: ({ tenantId, sessionId, after, limit }) => page('session_id', sessionId, tenantId, after ?? '0', limit),
    async acts({ tenantId, limit, before, action, target }) {
      if (before !== undefined && !/^\d{1,18}$/.test(before)) return [];
      const rows = await database.rows<{ act: AdminAct }>(
        `SELECT jsonb_build_object('id', a.id::text, 'occurredAt', codedock_time(a.occurred_at), 'actor', a.actor,
           'action', a.action, 'target', a.target, 'detail', a.detail) AS act
         FROM admin_audit a
         WHERE a.tenant_id = $1 AND ($3::bigint IS NULL OR a.id < $3) AND ($4::text IS NULL OR a.action = $4)
           AND ($5::text IS NULL OR a.target = $5) ORDER BY a.id DESC LIMIT $2`,
        [tenantId, limit, before ?? null, action ?? null, target ?? null],
      );
      return rows.map((row) => row.act);
    },
    async admin({ tenantId, actor, action, target, detail }) {
      await database.plain((prisma) =>
        prisma.adminAudit.create({ data: { tenantId: tenantId ?? INSTALLATION, actor, action, target, detail } }),
      );
    },
  };
}
