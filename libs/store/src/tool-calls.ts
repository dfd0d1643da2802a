import { isId, type LedgerEvent, type ToolCall } from '@codedock/domain';
import type { Database } from './database.js';
import { existing, missing } from './identity.js';
import type { ToolCallStore } from './tool-call-contract.js';

/** Tool calls as stored. */
export function toolCallStore(database: Database): ToolCallStore {
  return {
    async get(tenantId, callId) {
      const [row] = await database.rows<{ call: ToolCall & { runId: string; sessionId: string } }>(
        `SELECT codedock_call_view(c) || jsonb_build_object('runId', c.run_id, 'sessionId', c.session_id) AS call
         FROM tool_calls c JOIN sessions s ON s.id = c.session_id
         WHERE c.id = $1 AND c.tenant_id = $2 AND s.deleting_at IS NULL`,
        [existing('tool call', callId), tenantId],
      );
      if (row === undefined) throw missing('tool call', callId);
      return row.call;
    },

    async list(tenantId, runId) {
      if (!isId(runId)) return [];
      const rows = await database.rows<{ call: ToolCall }>(
        `SELECT codedock_call_view(c) AS call FROM tool_calls c JOIN turns t ON t.id = c.turn_id
         WHERE c.run_id = $1 AND c.tenant_id = $2 ORDER BY t.iteration, c.index`,
        [runId, tenantId],
      );
      return rows.map((row) => row.call);
    },

    async resolve(input) {
      existing('tool call', input.callId);
      const resolved = (await database.call('codedock_resolve_call', input)) as unknown as { events: LedgerEvent[] };
      return resolved.events;
    },
  };
}
