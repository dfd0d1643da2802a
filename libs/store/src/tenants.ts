import { isId } from '@codedock/domain';
import type { Database } from './database.js';
import type { Tenant as TenantRow } from './generated/client.js';
import { existing, missing } from './identity.js';
import { INSTALLATION } from './installation.js';
import type { Tenant, TenantStore } from './tenant-contract.js';

/** Who is billed, capped and kept apart. */
export function tenantStore(database: Database): TenantStore {
  return {
    async ensure({ id, name, maxConcurrentRuns }) {
      const row = await database.plain((prisma) =>
        prisma.tenant.upsert({
          where: { name },
          create: { id, name, maxConcurrentRuns: maxConcurrentRuns ?? null },
          update: {},
        }),
      );
      return viewOf(row);
    },
    async get(tenantId) {
      const row = isId(tenantId)
        ? await database.plain((prisma) => prisma.tenant.findUnique({ where: { id: tenantId } }))
        : null;
      if (row === null) throw missing('tenant', tenantId);
      return viewOf(row);
    },
    async findByName(name) {
      const row = await database.plain((prisma) => prisma.tenant.findUnique({ where: { name } }));
      return row === null ? undefined : viewOf(row);
    },
    async list() {
      const rows = await database.plain((prisma) =>
        prisma.tenant.findMany({ where: { id: { not: INSTALLATION } }, orderBy: { name: 'asc' } }),
      );
      return rows.map(viewOf);
    },
    async setLimits(tenantId, { maxConcurrentRuns, requestsPerSecond }) {
      existing('tenant', tenantId);
      const { count } = await database.plain((prisma) =>
        prisma.tenant.updateMany({
          where: { id: tenantId },
          data: {
            ...(maxConcurrentRuns === undefined ? {} : { maxConcurrentRuns }),
            ...(requestsPerSecond === undefined ? {} : { requestsPerSecond }),
          },
        }),
      );
      if (count === 0) throw missing('tenant', tenantId);
      return this.get(tenantId);
    },
  };
}

function viewOf(row: TenantRow): Tenant {
  return {
    id: row.id,
    name: row.name,
    ...(row.maxConcurrentRuns === null ? {} : { maxConcurrentRuns: row.maxConcurrentRuns }),
    ...(row.requestsPerSecond === null ? {} : { requestsPerSecond: row.requestsPerSecond }),
  };
}
