import { AppError, isId, type JsonObject } from '@codedock/domain';
import type { Session, SessionStore } from './contract.js';
import type { Database } from './database.js';
import type { Session as SessionRow } from './generated/client.js';
import { existing, missing } from './identity.js';

/** Conversations. */
export function sessionStore(database: Database): SessionStore {
  return {
    create(input, idempotency) {
      const row = {
        id: input.id,
        tenantId: input.tenantId,
        endUser: input.user ?? null,
        title: input.title ?? null,
        metadata: input.metadata,
        createdBy: input.createdBy,
      };
      return database.plain(async (prisma) => {
        if (idempotency === undefined) return viewOf(await prisma.session.create({ data: row }));
        return prisma.$transaction(async (transaction) => {
          const session = viewOf(await transaction.session.create({ data: row }));
          const body = JSON.stringify({ ...idempotency.body, ...session });
          await transaction.$executeRaw`SELECT codedock_complete_claim(${input.tenantId}::uuid, ${JSON.stringify(idempotency)}::jsonb, ${body}::jsonb)`;
          return session;
        });
      });
    },

    async get(tenantId, sessionId) {
      const row = await database.plain((prisma) =>
        prisma.session.findUnique({ where: { tenantId_id: { tenantId, id: existing('session', sessionId) } } }),
      );
      if (row === null) throw missing('session', sessionId);
      return viewOf(row);
    },

    async list({ tenantId, limit, before }) {
      if (before !== undefined && !isId(before)) return [];
      const rows = await database.plain((prisma) =>
        prisma.session.findMany({
          where: { tenantId },
          orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
          take: limit,
          ...(before === undefined ? {} : { cursor: { tenantId_id: { tenantId, id: before } }, skip: 1 }),
        }),
      );
      return rows.map(viewOf);
    },

    async archive(tenantId, sessionId) {
      existing('session', sessionId);
      // The row lock first, then a look at the runs: what makes a session busy happens under that lock.
      const busy = await database.plain((prisma) =>
        prisma.$transaction(async (transaction) => {
          await transaction.$executeRaw`SELECT 1 FROM sessions WHERE id = ${sessionId}::uuid AND tenant_id = ${tenantId}::uuid FOR NO KEY UPDATE`;
          const open = await transaction.run.count({
            where: { tenantId, sessionId, status: { in: ['pending', 'queued', 'running', 'waiting_approval'] } },
          });
          if (open === 0) {
            await transaction.session.updateMany({
              where: { tenantId, id: sessionId, archivedAt: null },
              data: { archivedAt: new Date() },
            });
            await transaction.approvalGrant.updateMany({
              where: { tenantId, sessionId, revokedAt: null },
              data: { revokedAt: new Date() },
            });
          }
          return open > 0;
        }),
      );
      if (busy) {
        throw new AppError(
          'session_busy',
          `Session ${sessionId} has a run that is not over; cancel it or wait for it.`,
        );
      }
      return this.get(tenantId, sessionId);
    },
  };
}

function viewOf(row: SessionRow): Session {
  return {
    id: row.id,
    ...(row.title === null ? {} : { title: row.title }),
    ...(row.endUser === null ? {} : { user: row.endUser }),
    metadata: row.metadata as JsonObject,
    status: row.archivedAt === null ? 'open' : 'archived',
    lastSeq: Number(row.lastSeq),
    createdAt: row.createdAt.toISOString(),
    ...(row.archivedAt === null ? {} : { archivedAt: row.archivedAt.toISOString() }),
  };
}
