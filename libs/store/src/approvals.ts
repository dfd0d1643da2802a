import { randomUUID } from 'node:crypto';
import { isId, type LedgerEvent } from '@codedock/domain';
import type { ApprovalGrant, ApprovalStore, ApprovalView, DecidedApproval } from './approval-contract.js';
import type { Database } from './database.js';
import { existing, missing } from './identity.js';

/** Approvals: a decision is one statement. */
export function approvalStore(database: Database): ApprovalStore {
  return {
    async get(tenantId, approvalId) {
      const [row] = await database.rows<{ approval: ApprovalView }>(
        `SELECT codedock_approval_view(a) AS approval FROM approvals a JOIN sessions s ON s.id = a.session_id
         WHERE a.id = $1 AND a.tenant_id = $2 AND s.deleting_at IS NULL`,
        [existing('approval', approvalId), tenantId],
      );
      if (row === undefined) throw missing('approval', approvalId);
      return row.approval;
    },

    async list({ tenantId, status, sessionId, runId, limit, before }) {
      if ([sessionId, runId, before].some((id) => id !== undefined && !isId(id))) return [];
      const rows = await database.rows<{ approval: ApprovalView }>(
        `SELECT codedock_approval_view(a) AS approval FROM approvals a JOIN sessions s ON s.id = a.session_id
         WHERE a.tenant_id = $1 AND s.deleting_at IS NULL AND ($2::text IS NULL OR a.status = $2) AND ($3::uuid IS NULL OR a.session_id = $3)
           AND ($4::uuid IS NULL OR a.run_id = $4)
           AND ($5::uuid IS NULL OR (a.created_at, a.id) <
             (SELECT b.created_at, b.id FROM approvals b WHERE b.id = $5 AND b.tenant_id = $1))
         ORDER BY a.created_at DESC, a.id DESC LIMIT $6`,
        [tenantId, status ?? null, sessionId ?? null, runId ?? null, before ?? null, limit],
      );
      return rows.map((row) => row.approval);
    },

    async decide(input) {
      existing('approval', input.approvalId);
      const unknown = input.decisions.find((decision) => !isId(decision.callId));
      if (unknown !== undefined) throw missing('tool call', unknown.callId);
      return (await database.call('codedock_decide', input)) as unknown as DecidedApproval;
    },

    async expire(tenantId, approvalId) {
      const expired = await database.call('codedock_decide', {
        tenantId,
        approvalId: existing('approval', approvalId),
        expire: true,
        actor: { id: 'host', name: 'host' },
        eventIds: { decided: randomUUID(), stateChanged: randomUUID() },
      });
      return expired === null ? undefined : (expired as unknown as DecidedApproval);
    },

    async dueReminders(share) {
      const [row] = await database.rows<{ due: { tenantId: string; approvalId: string }[] }>(
        'SELECT codedock_due_reminders($1) AS due',
        [share],
      );
      return row?.due ?? [];
    },

    async remind(tenantId, approvalId) {
      const [row] = await database.rows<{ events: LedgerEvent[] }>('SELECT codedock_remind($1, $2) AS events', [
        tenantId,
        existing('approval', approvalId),
      ]);
      return row?.events ?? [];
    },

    async grants(tenantId, sessionId) {
      if (!isId(sessionId)) return [];
      const rows = await database.rows<{ given: ApprovalGrant }>(
        `SELECT codedock_grant_view(g) AS given FROM approval_grants g
         WHERE g.session_id = $1 AND g.tenant_id = $2 ORDER BY g.created_at, g.id`,
        [sessionId, tenantId],
      );
      return rows.map((row) => row.given);
    },
  };
}
