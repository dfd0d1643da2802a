import { AppError, isId, type Ring } from '@codedock/domain';
import type { Database } from './database.js';
import { databaseError, isRunAgain } from './database-error.js';
import { withEdits } from './edited-calls.js';
import { existing, missing } from './identity.js';
import type { Left } from './ledger-contract.js';
import type {
  AcceptedRun,
  Admitted,
  DueRuns,
  EndingRun,
  Fenced,
  RunStore,
  RunView,
  RunWork,
  TakenLease,
  UntakenRuns,
} from './run-contract.js';

const ACCEPT_TRIES = 5;

/** Runs: each function is one statement. */
export function runStore(database: Database): RunStore {
  async function one<T>(sql: string, values: readonly unknown[]): Promise<T | undefined> {
    const [row] = await database.rows<{ result: T | null }>(sql, values);
    return row?.result ?? undefined;
  }
  return {
    async accept(input) {
      const text = JSON.stringify(input);
      for (let tries = 1; ; tries += 1) {
        try {
          const [row] = await database.raw<{ result: AcceptedRun }>('SELECT codedock_accept($1::jsonb) AS result', [
            text,
          ]);
          if (row !== undefined) return row.result;
        } catch (error) {
          if (!isRunAgain(error)) throw databaseError(error);
        }
        if (tries === ACCEPT_TRIES) {
          throw new AppError(
            'session_busy',
            `Session ${input.sessionId} takes other input at this moment; try again.`,
            {
              retryAfterMs: 100,
            },
          );
        }
      }
    },

    async takeLease(runId, ttlMs) {
      if (!isId(runId)) return { kind: 'nothing' };
      const taken = await one<TakenLease>('SELECT codedock_complete_lease(codedock_take_lease($1, $2), $1) AS result', [
        runId,
        ttlMs,
      ]);
      if (taken === undefined) return { kind: 'nothing' };
      return taken.kind === 'leased' ? { ...taken, snapshot: await withEdits(database, taken.snapshot) } : taken;
    },

    async heartbeat(runId, token, ttlMs) {
      // The fence of a statement that updates the run row itself: a waiting UPDATE judges the newest version of its row.
      const [row] = await database.rows<{ cancel_requested: boolean }>(
        `UPDATE runs SET lease_until = clock_timestamp() + $3 * interval '1 millisecond'
         WHERE id = $1 AND lease_token = $2 AND lease_until IS NOT NULL
           AND status IN ('pending', 'queued', 'running', 'waiting_approval')
         RETURNING cancel_requested_at IS NOT NULL AS cancel_requested`,
        [runId, token, ttlMs],
      );
      return row === undefined
        ? { held: false, cancelRequested: false }
        : { held: true, cancelRequested: row.cancel_requested };
    },

    handBack: (runId, token) =>
      one<{ ring: Ring; events: [] }>('SELECT codedock_hand_back($1, $2) AS result', [runId, token]),

    async leave(batch) {
      return (await database.call('codedock_leave', batch)) as unknown as Left;
    },

    async requestCancel({ tenantId, runId, actor }) {
      const view = await one<RunView>('SELECT codedock_request_cancel($1, $2, $3) AS result', [
        tenantId,
        existing('run', runId),
        actor,
      ]);
      return view ?? raise(missing('run', runId));
    },

    fence: (runId, { running }) => one<Fenced>('SELECT codedock_fence($1, $2) AS result', [runId, running]),

    ending: (runId) => one<EndingRun>('SELECT codedock_ending_view(r) AS result FROM runs r WHERE r.id = $1', [runId]),

    async get(tenantId, runId) {
      const view = await one<RunView>(
        `SELECT codedock_run_view(r, s.last_seq) AS result FROM runs r JOIN sessions s ON s.id = r.session_id
         WHERE r.id = $1 AND r.tenant_id = $2 AND s.deleting_at IS NULL`,
        [existing('run', runId), tenantId],
      );
      return view ?? raise(missing('run', runId));
    },

    async work({ tenantId, sessionId, runId }) {
      if (!isId(sessionId) || (runId !== undefined && !isId(runId))) return undefined;
      return one<RunWork>(
        `SELECT jsonb_build_object('runId', r.id, 'config', r.config, 'principal', r.principal,
             'usage', jsonb_build_object('inputTokens', r.input_tokens, 'outputTokens', r.output_tokens))
           || CASE WHEN r.start IS NULL THEN '{}' ELSE jsonb_build_object('start', r.start) END AS result
         FROM runs r WHERE r.session_id = $1 AND r.tenant_id = $2 AND ($3::uuid IS NULL OR r.id = $3)
         ORDER BY r.position DESC LIMIT 1`,
        [sessionId, tenantId, runId ?? null],
      );
    },

    async addUsage({ tenantId, sessionId, runId, usage }) {
      await database.rows(
        `WITH counted AS (
           UPDATE runs SET input_tokens = input_tokens + $4, output_tokens = output_tokens + $5
           WHERE id = $3::uuid AND session_id = $2::uuid AND tenant_id = $1::uuid AND NOT codedock_is_terminal(status)
           RETURNING 1)
         UPDATE sessions SET input_tokens = input_tokens + $4, output_tokens = output_tokens + $5
           WHERE id = $2::uuid AND tenant_id = $1::uuid AND NOT EXISTS (SELECT 1 FROM counted)`,
        [
          tenantId,
          existing('session', sessionId),
          runId === undefined ? null : existing('run', runId),
          usage.inputTokens,
          usage.outputTokens,
        ],
      );
    },

    async list({ tenantId, sessionId, status, limit, before }) {
      if ((sessionId !== undefined && !isId(sessionId)) || (before !== undefined && !isId(before))) return [];
      const rows = await database.rows<{ result: RunView }>(
        `SELECT codedock_run_view(r, s.last_seq) AS result FROM runs r JOIN sessions s ON s.id = r.session_id
         WHERE r.tenant_id = $1 AND s.deleting_at IS NULL AND ($2::uuid IS NULL OR r.session_id = $2) AND ($3::text IS NULL OR r.status = $3)
           AND ($4::uuid IS NULL
             OR r.position < (SELECT position FROM runs WHERE id = $4 AND tenant_id = $1))
         ORDER BY r.position DESC LIMIT $5`,
        [tenantId, sessionId ?? null, status ?? null, before ?? null, limit],
      );
      return rows.map((row) => row.result);
    },

    async due() {
      const due = await one<DueRuns>('SELECT codedock_lapsed() AS result', []);
      return due ?? { rings: [], cancels: [], expiredApprovals: [], tenants: [] };
    },

    async untaken({ after, limit }) {
      const found = await one<UntakenRuns>('SELECT codedock_untaken($1, $2) AS result', [after, limit]);
      return found ?? { queued: 0, runs: [] };
    },

    async ringAgain(lost) {
      if (lost.length === 0) return [];
      return (await one<Ring[]>('SELECT codedock_ring_again($1::jsonb) AS result', [JSON.stringify(lost)])) ?? [];
    },

    async admit(tenantId) {
      const admitted = await one<Admitted>('SELECT codedock_admit($1) AS result', [tenantId]);
      return admitted ?? { rings: [], events: [] };
    },

    async queued() {
      const [row] = await database.rows<{ queued: number }>(
        "SELECT count(*)::int AS queued FROM runs WHERE status = 'queued'",
        [],
      );
      return row?.queued ?? 0;
    },

    async counts() {
      const [row] = await database.rows<{ queued: number; pending: number; expired: number; oldest: number }>(
        `SELECT count(*) FILTER (WHERE status = 'queued')::int AS queued,
           (SELECT count(*) FROM runs WHERE status = 'pending')::int AS pending,
           count(*) FILTER (WHERE status = 'running' AND lease_until < clock_timestamp())::int AS expired,
           coalesce(extract(epoch FROM clock_timestamp() - min(queued_at) FILTER (WHERE status = 'queued')) * 1000, 0)::float8
             AS oldest
         FROM runs WHERE status IN ('queued', 'running')`,
        [],
      );
      return {
        queued: row?.queued ?? 0,
        pending: row?.pending ?? 0,
        expiredLeases: row?.expired ?? 0,
        oldestQueuedMs: row?.oldest ?? 0,
      };
    },
  };
}

function raise(error: Error): never {
  throw error;
}
