import type { AgentProfile } from '@codedock/domain';
import type { AgentStore } from './contract.js';
import type { Database } from './database.js';
import type { Prisma } from './generated/client.js';
import { INSTALLATION } from './installation.js';

/** Agent profiles: a tenant's own lie over the installation's. */
export function agentStore(database: Database): AgentStore {
  return {
    async list(tenantId) {
      const rows = await database.plain((prisma) =>
        prisma.agent.findMany({ where: { tenantId: { in: [tenantId, INSTALLATION] } } }),
      );
      const byName = new Map<string, AgentProfile>();
      for (const own of [false, true]) {
        for (const row of rows) {
          if ((row.tenantId === tenantId) === own) byName.set(row.name, row.profile as unknown as AgentProfile);
        }
      }
      return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    },

    async get(tenantId, name) {
      const rows = await database.plain((prisma) =>
        prisma.agent.findMany({ where: { name, tenantId: { in: [tenantId, INSTALLATION] } } }),
      );
      const row = rows.find((candidate) => candidate.tenantId === tenantId) ?? rows[0];
      return row === undefined ? undefined : (row.profile as unknown as AgentProfile);
    },

    async upsertFromFile(profiles) {
      await database.plain((prisma) =>
        prisma.$transaction([
          prisma.agent.deleteMany({
            where: { tenantId: INSTALLATION, name: { notIn: profiles.map((profile) => profile.name) } },
          }),
          ...profiles.map((profile) => {
            const stored = profile as unknown as Prisma.InputJsonObject;
            return prisma.agent.upsert({
              where: { tenantId_name: { tenantId: INSTALLATION, name: profile.name } },
              create: { tenantId: INSTALLATION, name: profile.name, profile: stored },
              update: { profile: stored, updatedAt: new Date() },
            });
          }),
        ]),
      );
    },
  };
}
