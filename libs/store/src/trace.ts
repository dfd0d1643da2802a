import { auditStore } from './audit.js';
import type { Database } from './database.js';
import { runStore } from './runs.js';
import { toolCallStore } from './tool-calls.js';
import type { RunTrace } from './trace-contract.js';

/** Most audit lines of one trace. */
const RECORD_LIMIT = 10_000;

/** Reads everything of a run that a waterfall is drawn from. */
export function traceReader(database: Database): (tenantId: string, runId: string) => Promise<RunTrace> {
  const runs = runStore(database);
  const calls = toolCallStore(database);
  const audit = auditStore(database);
  return async (tenantId, runId) => ({
    run: await runs.get(tenantId, runId),
    turns: (
      await database.rows<{ turn: RunTrace['turns'][number] }>(
        `SELECT jsonb_strip_nulls(jsonb_build_object('id', t.id, 'iteration', t.iteration, 'status', t.status,
           'usage', jsonb_build_object('inputTokens', t.input_tokens, 'outputTokens', t.output_tokens),
           'startedAt', codedock_time(t.started_at), 'completedAt', codedock_time(t.completed_at))) AS turn
         FROM turns t WHERE t.run_id = $1 AND t.tenant_id = $2 ORDER BY t.iteration`,
        [runId, tenantId],
      )
    ).map((row) => row.turn),
    calls: await calls.list(tenantId, runId),
    executions: (
      await database.rows<{ execution: RunTrace['executions'][number] }>(
        `SELECT jsonb_strip_nulls(jsonb_build_object('callId', x.call_id, 'n', x.n, 'state', x.state,
           'startedAt', codedock_time(x.started_at), 'endedAt', codedock_time(x.ended_at))) AS execution
         FROM executions x JOIN tool_calls c ON c.id = x.call_id
         WHERE c.run_id = $1 AND c.tenant_id = $2 ORDER BY x.started_at, x.n`,
        [runId, tenantId],
      )
    ).map((row) => row.execution),
    marks: (
      await database.rows<{ mark: RunTrace['marks'][number] }>(
        `SELECT jsonb_strip_nulls(jsonb_build_object('type', e.type, 'turnId', e.turn_id,
           'reason', e.payload ->> 'reason', 'occurredAt', codedock_time(e.occurred_at))) AS mark
         FROM events e JOIN runs r ON r.session_id = e.session_id AND r.id = e.run_id
         WHERE r.id = $1 AND r.tenant_id = $2 AND e.seq >= r.first_seq AND e.turn_id IS NOT NULL
           AND e.type IN ('turn.started', 'turn.resumed', 'turn.restarted', 'assistant.completed')
         ORDER BY e.seq`,
        [runId, tenantId],
      )
    ).map((row) => row.mark),
    records: await audit.byRun({ tenantId, runId, limit: RECORD_LIMIT }),
  });
}
