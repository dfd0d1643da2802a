import { AppError, isId, type JsonObject } from '@codedock/domain';
import type { Database } from './database.js';
import { databaseTime } from './database-time.js';
import type { Session as SessionRow } from './generated/client.js';
import { existing, missing } from './identity.js';
import type { Session, SessionStore } from './session-contract.js';

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
        // Lists are ordered by it: gateways whose clocks differ must not put sessions out of order.
        const data = { ...row, createdAt: await databaseTime(prisma) };
        if (idempotency === undefined) return viewOf(await prisma.session.create({ data }));
        return prisma.$transaction(async (transaction) => {
          const session = viewOf(await transaction.session.create({ data }));
          const body = JSON.stringify({ ...idempotency.body, ...session });
          await transaction.$executeRaw`SELECT codedock_complete_claim(${input.tenantId}::uuid, ${JSON.stringify(idempotency)}::jsonb, ${body}::jsonb)`;
          return session;
        });
      });
    },

    // Read for every input to a session, so by SQL: a tenth of what the client takes.
    async get(tenantId, sessionId) {
      const [row] = await database.rows<ShownSession>(SHOWN_SESSION, [existing('session', sessionId), tenantId]);
      if (row === undefined) throw missing('session', sessionId);
      return viewOf(row);
    },

    async list({ tenantId, limit, before }) {
      if (before !== undefined && !isId(before)) return [];
      const rows = await database.plain((prisma) =>
        prisma.session.findMany({
          where: { tenantId, deletingAt: null },
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
            const now = await databaseTime(transaction);
            await transaction.session.updateMany({
              where: { tenantId, id: sessionId, archivedAt: null },
              data: { archivedAt: now },
            });
            await transaction.approvalGrant.updateMany({
              where: { tenantId, sessionId, revokedAt: null },
              data: { revokedAt: now },
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

    async tenantOf(sessionId) {
      if (!isId(sessionId)) return undefined;
      const row = await database.plain((prisma) =>
        prisma.session.findUnique({ where: { id: sessionId, deletingAt: null }, select: { tenantId: true } }),
      );
      return row?.tenantId;
    },

    async activeTools(tenantId, sessionId) {
      const [row] = await database.rows<{ names: string[] | null }>(
        'SELECT active_tools AS names FROM sessions WHERE id = $1 AND tenant_id = $2',
        [existing('session', sessionId), tenantId],
      );
      if (row === undefined) throw missing('session', sessionId);
      return row.names ?? undefined;
    },

    async setActiveTools({ tenantId, sessionId, names, actor }) {
      const rows = await database.rows(
        `WITH changed AS (UPDATE sessions SET active_tools = $3::jsonb WHERE id = $1 AND tenant_id = $2 RETURNING 1)
         INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
           SELECT $2::uuid, $4, 'session.active_tools_set', $1::text, jsonb_build_object('names', $3::jsonb) FROM changed
           RETURNING 1`,
        [existing('session', sessionId), tenantId, JSON.stringify(names), actor],
      );
      if (rows.length === 0) throw missing('session', sessionId);
    },
  };
}

/** The columns a session is shown by; counters come as text from SQL and as numbers from the client. */
type ShownSession = Pick<SessionRow, 'id' | 'title' | 'endUser' | 'metadata' | 'createdAt' | 'archivedAt'> & {
  readonly [column in 'lastSeq' | 'prunedSeq' | 'inputTokens' | 'outputTokens']: bigint | string;
};

const SHOWN_SESSION = `SELECT id, title, end_user AS "endUser", metadata, created_at AS "createdAt",
    archived_at AS "archivedAt", last_seq AS "lastSeq", pruned_seq AS "prunedSeq", input_tokens AS "inputTokens",
    output_tokens AS "outputTokens"
  FROM sessions WHERE id = $1 AND tenant_id = $2 AND deleting_at IS NULL`;

function viewOf(row: ShownSession): Session {
  return {
    id: row.id,
    ...(row.title === null ? {} : { title: row.title }),
    ...(row.endUser === null ? {} : { user: row.endUser }),
    metadata: row.metadata as JsonObject,
    status: row.archivedAt === null ? 'open' : 'archived',
    lastSeq: Number(row.lastSeq),
    prunedSeq: Number(row.prunedSeq),
    usage: { inputTokens: Number(row.inputTokens), outputTokens: Number(row.outputTokens) },
    createdAt: row.createdAt.toISOString(),
    ...(row.archivedAt === null ? {} : { archivedAt: row.archivedAt.toISOString() }),
  };
}
