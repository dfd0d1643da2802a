import type { Pool } from 'pg';
import type { History } from './history.js';

/** What the database knows of a history. */
export type StoredHistory = Pick<
  History,
  'sessions' | 'runs' | 'events' | 'turns' | 'calls' | 'executions' | 'decisions' | 'audit'
>;

/** Dumps everything the checker judges, in one snapshot of the database. */
export async function readHistory(db: Pool): Promise<StoredHistory> {
  const client = await db.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const rows = async <T>(sql: string): Promise<T[]> =>
      (await client.query<{ row: T }>(`SELECT to_jsonb(q) AS row FROM (${sql}) q`)).rows.map(({ row }) => row);
    const history: StoredHistory = {
      sessions: await rows('SELECT id, tenant_id AS "tenantId", last_seq AS "lastSeq" FROM sessions'),
      runs: await rows(
        `SELECT id, tenant_id AS "tenantId", session_id AS "sessionId", status, lease_token AS "leaseToken",
           lease_until AS "leaseUntil", cancel_reason AS "cancelReason", request_id AS "requestId", position,
           first_seq AS "firstSeq", ended_seq AS "endedSeq", config -> 'tools' AS tools FROM runs ORDER BY position`,
      ),
      events: await rows(
        `SELECT session_id AS "sessionId", tenant_id AS "tenantId", run_id AS "runId", turn_id AS "turnId", seq,
           event_id AS "eventId", attempt, type, payload FROM events ORDER BY session_id, seq`,
      ),
      turns: await rows('SELECT id, run_id AS "runId", tools FROM turns'),
      calls: await rows(
        `SELECT id, run_id AS "runId", session_id AS "sessionId", name, arguments, effect, state, digest,
           gate_decision AS "gateDecision", execution_count AS "executionCount" FROM tool_calls`,
      ),
      executions: await rows('SELECT call_id AS "callId", n, attempt, state FROM executions'),
      decisions: await rows(
        `SELECT call_id AS "callId", approval_id AS "approvalId", digest, edited_digest AS "editedDigest", decision
         FROM approval_calls`,
      ),
      audit: await rows(
        `SELECT id, session_id AS "sessionId", tenant_id AS "tenantId", run_id AS "runId", call_id AS "callId",
           request_id AS "requestId", attempt, gate, hook, outcome FROM hook_audit`,
      ),
    };
    await client.query('COMMIT');
    return history;
  } finally {
    client.release();
  }
}
