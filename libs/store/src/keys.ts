import { AppError, type Scope } from '@codedock/domain';
import type { ApiKey, KeyStore } from './contract.js';
import type { Database } from './database.js';
import { databaseError, isDuplicate } from './database-error.js';
import type { ApiKey as KeyRow } from './generated/client.js';
import { existing, missing } from './identity.js';

/** API keys: hashes only, bound to a tenant. */
export function keyStore(database: Database): KeyStore {
  return {
    async create(input) {
      try {
        const row = await database.prisma.apiKey.create({
          data: {
            id: input.id,
            tenantId: input.tenantId,
            name: input.name,
            hash: input.hash,
            scopes: [...input.scopes],
            createdBy: input.createdBy ?? null,
            expiresAt: input.expiresAt === undefined ? null : new Date(input.expiresAt),
          },
        });
        return viewOf(row);
      } catch (error) {
        if (!isDuplicate(error)) throw databaseError(error);
        throw new AppError(
          'conflict',
          `The tenant has a live key named ${input.name}; revoke it or choose another name.`,
          {
            cause: error,
          },
        );
      }
    },

    async list(tenantId) {
      const rows = await database.plain((prisma) =>
        prisma.apiKey.findMany({ where: { tenantId }, orderBy: [{ createdAt: 'asc' }, { id: 'asc' }] }),
      );
      return rows.map(viewOf);
    },

    async revoke(tenantId, keyId, actor) {
      existing('key', keyId);
      return database.plain((prisma) =>
        prisma.$transaction(async (transaction) => {
          const { count } = await transaction.apiKey.updateMany({
            where: { id: keyId, tenantId, revokedAt: null },
            data: { revokedAt: new Date(), revokedBy: actor },
          });
          const row = await transaction.apiKey.findFirst({ where: { id: keyId, tenantId } });
          if (row === null) throw missing('key', keyId);
          if (count > 0) {
            await transaction.adminAudit.create({
              data: { tenantId, actor, action: 'key.revoked', target: row.name, detail: { keyId } },
            });
          }
          return viewOf(row);
        }),
      );
    },

    async authenticate(hash) {
      const rows = await database.rows<{
        id: string;
        tenant_id: string;
        name: string;
        scopes: Scope[];
        created_at: Date;
        expires_at: Date | null;
      }>(
        `SELECT id, tenant_id, name, scopes, created_at, expires_at FROM api_keys
         WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())`,
        [hash],
      );
      const row = rows[0];
      if (row === undefined) return undefined;
      return {
        id: row.id,
        tenantId: row.tenant_id,
        name: row.name,
        scopes: row.scopes,
        createdAt: row.created_at.toISOString(),
        ...(row.expires_at === null ? {} : { expiresAt: row.expires_at.toISOString() }),
      };
    },
  };
}

function viewOf(row: KeyRow): ApiKey {
  return {
    id: row.id,
    tenantId: row.tenantId,
    name: row.name,
    scopes: row.scopes as Scope[],
    createdAt: row.createdAt.toISOString(),
    ...(row.expiresAt === null ? {} : { expiresAt: row.expiresAt.toISOString() }),
    ...(row.revokedAt === null ? {} : { revokedAt: row.revokedAt.toISOString() }),
  };
}
