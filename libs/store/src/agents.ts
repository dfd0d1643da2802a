import { type AgentProfile, AppError } from '@codedock/domain';
import type { AgentStore, StoredAgent } from './agent-contract.js';
import type { Database } from './database.js';
import { databaseTime } from './database-time.js';
import type { Prisma } from './generated/client.js';
import { missing } from './identity.js';
import { INSTALLATION } from './installation.js';

const VIEW = `jsonb_build_object('profile', a.profile, 'version', a.version, 'updatedAt', codedock_time(a.updated_at),
  'source', CASE WHEN a.tenant_id = '${INSTALLATION}' THEN 'installation' ELSE 'tenant' END)`;
const AUDIT = `INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
  SELECT a.tenant_id, $3::text, $4::text, a.name, jsonb_build_object('version', a.version) FROM changed a`;

/** Agent profiles: a tenant's own lie over the installation's. */
export function agentStore(database: Database): AgentStore {
  /** One statement with its audit; `change` returns the row it touched. Undefined when it touched none. */
  async function changed(
    change: string,
    { tenantId, name, actor, action }: { tenantId: string; name: string; actor: string; action: string },
    more: readonly unknown[],
    and = '',
  ): Promise<StoredAgent | undefined> {
    const [row] = await database.rows<{ agent: StoredAgent }>(
      `WITH changed AS (${change}), audited AS (${AUDIT})${and === '' ? '' : `, ${and}`}
       SELECT ${VIEW} AS agent FROM changed a${and === '' ? '' : ', completed'}`,
      [tenantId, name, actor, action, ...more],
    );
    return row?.agent;
  }

  /** Why nothing was changed. */
  async function refusal(store: AgentStore, tenantId: string, name: string): Promise<AppError> {
    const found = await store.describe(tenantId, name);
    if (found === undefined) return missing('agent profile', name);
    return found.source === 'tenant'
      ? new AppError(
          'conflict',
          `The agent profile ${name} has version ${found.version} now, not the one named in If-Match; read it again.`,
        )
      : new AppError(
          'conflict',
          `The agent profile ${name} is the installation's and is changed in CODEDOCK_PROFILES_FILE; POST /v1/agents makes one of your own that lies over it.`,
        );
  }

  return {
    async describe(tenantId, name) {
      const [row] = await database.rows<{ agent: StoredAgent }>(
        `SELECT ${VIEW} AS agent FROM agents a WHERE a.name = $2 AND a.tenant_id IN ($1, $3)
         ORDER BY a.tenant_id = $3 LIMIT 1`,
        [tenantId, name, INSTALLATION],
      );
      return row?.agent;
    },

    async describeAll(tenantId) {
      const rows = await database.rows<{ agent: StoredAgent }>(
        `SELECT DISTINCT ON (a.name COLLATE "C") ${VIEW} AS agent FROM agents a WHERE a.tenant_id IN ($1, $2)
         ORDER BY a.name COLLATE "C", a.tenant_id = $2`,
        [tenantId, INSTALLATION],
      );
      return rows.map((row) => row.agent);
    },

    async create({ tenantId, profile, maxAgents, actor }, idempotency) {
      const completed =
        idempotency === undefined
          ? ''
          : `completed AS (SELECT codedock_complete_claim($1::uuid, $7::jsonb, ($7::jsonb->'body') || a.profile
               || (${VIEW} - 'profile')) FROM changed a)`;
      const made = await changed(
        `INSERT INTO agents (tenant_id, name, profile) SELECT $1::uuid, $2::text, $5::jsonb
         WHERE (SELECT count(*) FROM agents WHERE tenant_id = $1::uuid) < $6
         ON CONFLICT (tenant_id, name) DO NOTHING RETURNING *`,
        { tenantId, name: profile.name, actor, action: 'agent.created' },
        [JSON.stringify(profile), maxAgents, ...(idempotency === undefined ? [] : [JSON.stringify(idempotency)])],
        completed,
      );
      if (made !== undefined) return made;
      const found = await this.describe(tenantId, profile.name);
      throw new AppError(
        'conflict',
        found?.source === 'tenant'
          ? `There is an agent profile ${profile.name} already; replace it or choose another name.`
          : `There are ${maxAgents} agent profiles already; delete one.`,
      );
    },

    async replace({ tenantId, name, version, profile, actor }) {
      const made = await changed(
        `UPDATE agents SET profile = $5::jsonb, version = version + 1, updated_at = codedock_now()
         WHERE tenant_id = $1::uuid AND name = $2::text AND ($6::integer IS NULL OR version = $6) RETURNING *`,
        { tenantId, name, actor, action: 'agent.replaced' },
        [JSON.stringify(profile), version ?? null],
      );
      if (made === undefined) throw await refusal(this, tenantId, name);
      return made;
    },

    async remove({ tenantId, name, version, actor }) {
      const gone = await changed(
        `DELETE FROM agents WHERE tenant_id = $1::uuid AND name = $2::text AND ($5::integer IS NULL OR version = $5)
         RETURNING *`,
        { tenantId, name, actor, action: 'agent.deleted' },
        [version ?? null],
      );
      if (gone === undefined) throw await refusal(this, tenantId, name);
    },

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
      await database.plain(async (prisma) => {
        const updatedAt = await databaseTime(prisma);
        await prisma.$transaction([
          prisma.agent.deleteMany({
            where: { tenantId: INSTALLATION, name: { notIn: profiles.map((profile) => profile.name) } },
          }),
          ...profiles.map((profile) => {
            const stored = profile as unknown as Prisma.InputJsonObject;
            return prisma.agent.upsert({
              where: { tenantId_name: { tenantId: INSTALLATION, name: profile.name } },
              create: { tenantId: INSTALLATION, name: profile.name, profile: stored, updatedAt },
              update: { profile: stored, updatedAt },
            });
          }),
        ]);
      });
    },
  };
}
