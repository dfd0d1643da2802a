import { AppError } from '@codedock/domain';
import type { Database } from './database.js';
import { databaseTime } from './database-time.js';
import type { Memory } from './generated/client.js';
import type { ListedMemory, MemoryEditing, MemoryEntry, MemoryOwner, MemoryStore } from './memory-contract.js';

/** Named texts of a session, an end user or a tenant. */
export function memoryStore(database: Database): MemoryStore & MemoryEditing {
  return {
    async get({ tenantId, scope, owner }, name) {
      const row = await database.plain((prisma) =>
        prisma.memory.findUnique({ where: { tenantId_scope_owner_name: { tenantId, scope, owner, name } } }),
      );
      return row === null ? undefined : viewOf(row);
    },

    async upsert({ tenantId, scope, owner }: MemoryOwner, name, text) {
      return viewOf(
        await database.plain(async (prisma) => {
          const updatedAt = await databaseTime(prisma);
          return prisma.memory.upsert({
            where: { tenantId_scope_owner_name: { tenantId, scope, owner, name } },
            create: { tenantId, scope, owner, name, text, updatedAt },
            update: { text, updatedAt },
          });
        }),
      );
    },

    async list({ tenantId, scope, owner }, { limit, after, query }) {
      const rows = await database.rows<{ listed: ListedMemory }>(
        `SELECT jsonb_build_object('name', m.name, 'characters', char_length(m.text),
           'updatedAt', codedock_time(m.updated_at)) AS listed
         FROM memory m WHERE m.tenant_id = $1 AND m.scope = $2 AND m.owner = $3
           AND ($4::text IS NULL OR m.name COLLATE "C" > $4)
           AND ($5::text IS NULL OR position(lower($5) IN lower(m.name)) > 0 OR position(lower($5) IN lower(m.text)) > 0)
         ORDER BY m.name COLLATE "C" LIMIT $6`,
        [tenantId, scope, owner, after ?? null, query ?? null, limit],
      );
      return rows.map((row) => row.listed);
    },

    async set({ tenantId, scope, owner }, { name, text, maxEntries, actor }) {
      const [row] = await database.rows<{ entry: MemoryEntry }>(
        `WITH known AS (
           SELECT count(*) AS entries, coalesce(bool_or(name = $4), false) AS present FROM memory
           WHERE tenant_id = $1 AND scope = $2 AND owner = $3), stored AS (
           INSERT INTO memory (tenant_id, scope, owner, name, text, updated_at)
             SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text, codedock_now() FROM known
             WHERE present OR entries < $6
           ON CONFLICT (tenant_id, scope, owner, name) DO UPDATE SET text = excluded.text, updated_at = excluded.updated_at
           RETURNING *), audited AS (
           INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
             SELECT tenant_id, $7, 'memory.set', name, jsonb_build_object('scope', scope, 'owner', owner) FROM stored)
         SELECT jsonb_build_object('name', name, 'text', text, 'updatedAt', codedock_time(updated_at)) AS entry FROM stored`,
        [tenantId, scope, owner, name, text, maxEntries, actor],
      );
      if (row !== undefined) return row.entry;
      throw new AppError('conflict', `This memory holds ${maxEntries} entries already; delete some.`);
    },

    async remove({ tenantId, scope, owner }, name, actor) {
      const rows = await database.rows(
        `WITH gone AS (
           DELETE FROM memory WHERE tenant_id = $1 AND scope = $2 AND owner = $3 AND name = $4 RETURNING *)
         INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
           SELECT tenant_id, $5, 'memory.deleted', name, jsonb_build_object('scope', scope, 'owner', owner) FROM gone
           RETURNING 1`,
        [tenantId, scope, owner, name, actor],
      );
      return rows.length > 0;
    },

    async search({ tenantId, scope, owner }, query, limit) {
      // Prisma passes wildcards of LIKE through.
      const contains = { contains: query.replace(/[\\%_]/g, '\\$&'), mode: 'insensitive' } as const;
      const rows = await database.plain((prisma) =>
        prisma.memory.findMany({
          where: { tenantId, scope, owner, OR: [{ name: contains }, { text: contains }] },
          orderBy: [{ updatedAt: 'desc' }, { name: 'asc' }],
          take: limit,
        }),
      );
      return rows.map(viewOf);
    },
  };
}

function viewOf(row: Memory): MemoryEntry {
  return { name: row.name, text: row.text, updatedAt: row.updatedAt.toISOString() };
}
