import { AppError, type Scope } from '@codedock/domain';
import type { Database } from './database.js';
import { databaseError, isDuplicate } from './database-error.js';
import { databaseTime } from './database-time.js';
import type { ApiKey as KeyRow } from './generated/client.js';
import type { IdempotencyCompletion } from './idempotency-contract.js';
import { existing, missing } from './identity.js';
import type { ApiKey, KeyStore } from './key-contract.js';

/** Of a row `k` of `api_keys`: neither revoked nor expired. */
export const LIVE_KEY = 'k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())';

/** API keys: hashes only, bound to a tenant. */
export function keyStore(database: Database): KeyStore {
  return {
    async create(input, idempotency) {
      const { id, tenantId, name, scopes } = input;
      try {
        return await database.prisma.$transaction(async (transaction) => {
          const now = await databaseTime(transaction);
          const created = viewOf(
            await transaction.apiKey.create({
              data: {
                id,
                createdAt: now,
                tenantId,
                name,
                hash: input.hash,
                scopes: [...scopes],
                createdBy: input.createdBy ?? null,
                expiresAt: input.expiresAt === undefined ? null : new Date(input.expiresAt),
              },
            }),
            now,
          );
          const detail = { keyId: id, scopes: [...scopes], expiresAt: input.expiresAt ?? null };
          await transaction.adminAudit.create({
            data: { tenantId, actor: input.createdBy ?? 'codedock keys', action: 'key.created', target: name, detail },
          });
          await complete(transaction, created, idempotency);
          return created;
        });
      } catch (error) {
        if (!isDuplicate(error)) throw databaseError(error);
        throw new AppError('conflict', `The tenant has a live key named ${name}; revoke it or choose another name.`, {
          cause: error,
        });
      }
    },

    async rotate({ tenantId, keyId, hash, graceMs, expiresAt, actor }, idempotency) {
      existing('key', keyId);
      return database.plain((prisma) =>
        prisma.$transaction(async (transaction) => {
          const at = await databaseTime(transaction);
          const now = at.getTime();
          const former = await transaction.apiKey.findFirst({ where: { id: keyId, tenantId } });
          if (former === null) throw missing('key', keyId);
          // A new date of expiry is not for the former secret: it ends when it would have ended, at the latest.
          const until = Math.min(now + graceMs, former.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY);
          const { count } = await transaction.apiKey.updateMany({
            where: { id: keyId, tenantId, revokedAt: null, hash: former.hash },
            data: {
              hash,
              formerHash: until > now ? former.hash : null,
              formerUntil: until > now ? new Date(until) : null,
              rotatedAt: at,
              ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt) }),
            },
          });
          if (count === 0) {
            throw new AppError(
              'conflict',
              `The key ${former.name} is revoked, or is being rotated by somebody else at this moment; look at it again.`,
            );
          }
          await transaction.adminAudit.create({
            data: { tenantId, actor, action: 'key.rotated', target: former.name, detail: { keyId, graceMs } },
          });
          const rotated = viewOf(await transaction.apiKey.findUniqueOrThrow({ where: { id: keyId } }), at);
          await complete(transaction, rotated, idempotency);
          return rotated;
        }),
      );
    },

    async list(tenantId) {
      return database.plain(async (prisma) => {
        const [now, rows] = await Promise.all([
          databaseTime(prisma),
          prisma.apiKey.findMany({ where: { tenantId }, orderBy: [{ createdAt: 'asc' }, { id: 'asc' }] }),
        ]);
        return rows.map((row) => viewOf(row, now));
      });
    },

    async revoke(tenantId, keyId, actor) {
      existing('key', keyId);
      return database.plain((prisma) =>
        prisma.$transaction(async (transaction) => {
          const now = await databaseTime(transaction);
          const { count } = await transaction.apiKey.updateMany({
            where: { id: keyId, tenantId, revokedAt: null },
            data: { revokedAt: now, revokedBy: actor },
          });
          const row = await transaction.apiKey.findFirst({ where: { id: keyId, tenantId } });
          if (row === null) throw missing('key', keyId);
          if (count > 0) {
            await transaction.adminAudit.create({
              data: { tenantId, actor, action: 'key.revoked', target: row.name, detail: { keyId } },
            });
          }
          return viewOf(row, now);
        }),
      );
    },

    async authenticate(hash) {
      const rows = await database.rows<{
        id: string;
        tenant_id: string;
        tenant_name: string;
        name: string;
        scopes: Scope[];
        created_at: Date;
        expires_at: Date | null;
        requests_per_second: number | null;
      }>(
        `SELECT k.id, k.tenant_id, t.name AS tenant_name, k.name, k.scopes, k.created_at, k.expires_at,
           t.requests_per_second
         FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
         WHERE (k.hash = $1 OR k.former_hash = $1 AND k.former_until > clock_timestamp())
           AND ${LIVE_KEY}`,
        [hash],
      );
      const row = rows[0];
      if (row === undefined) return undefined;
      return {
        id: row.id,
        tenantId: row.tenant_id,
        tenantName: row.tenant_name,
        name: row.name,
        scopes: row.scopes,
        createdAt: row.created_at.toISOString(),
        ...(row.expires_at === null ? {} : { expiresAt: row.expires_at.toISOString() }),
        ...(row.requests_per_second === null ? {} : { requestsPerSecond: row.requests_per_second }),
      };
    },
  };
}

/** Stores the answer that shows the key in the transaction that made its secret, if the request is idempotent. */
async function complete(
  transaction: Pick<Database['prisma'], '$executeRaw'>,
  { tenantId, ...shown }: ApiKey,
  idempotency: IdempotencyCompletion | undefined,
): Promise<void> {
  if (idempotency === undefined) return;
  const body = JSON.stringify({ ...idempotency.body, ...shown });
  await transaction.$executeRaw`SELECT codedock_complete_claim(${tenantId}::uuid, ${JSON.stringify(idempotency)}::jsonb, ${body}::jsonb)`;
}

function viewOf(row: KeyRow, now: Date): ApiKey {
  return {
    id: row.id,
    tenantId: row.tenantId,
    name: row.name,
    scopes: row.scopes as Scope[],
    createdAt: row.createdAt.toISOString(),
    ...(row.expiresAt === null ? {} : { expiresAt: row.expiresAt.toISOString() }),
    ...(row.rotatedAt === null ? {} : { rotatedAt: row.rotatedAt.toISOString() }),
    ...(row.formerUntil === null || row.formerUntil < now ? {} : { formerUntil: row.formerUntil.toISOString() }),
    ...(row.revokedAt === null ? {} : { revokedAt: row.revokedAt.toISOString() }),
  };
}
