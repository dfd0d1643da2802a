import type { MemoryEntry, MemoryOwner, MemoryStore } from './contract.js';
import type { Database } from './database.js';
import type { Memory } from './generated/client.js';

/** Named texts of a session, an end user or a tenant. */
export function memoryStore(database: Database): MemoryStore {
  return {
    async get({ tenantId, scope, owner }, name) {
      const row = await database.plain((prisma) =>
        prisma.memory.findUnique({ where: { tenantId_scope_owner_name: { tenantId, scope, owner, name } } }),
      );
      return row === null ? undefined : viewOf(row);
    },

    async upsert({ tenantId, scope, owner }: MemoryOwner, name, text) {
      const updatedAt = new Date();
      return viewOf(
        await database.plain((prisma) =>
          prisma.memory.upsert({
            where: { tenantId_scope_owner_name: { tenantId, scope, owner, name } },
            create: { tenantId, scope, owner, name, text, updatedAt },
            update: { text, updatedAt },
          }),
        ),
      );
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
