import { isId, type LedgerEvent, type ToolCall } from '@codedock/domain';
import type { Database } from './database.js';
import { existing, missing } from './identity.js';
import type { PlacedToolCall, ToolCallStore } from './tool-call-contract.js';

/** Of a row `c` of `tool_calls`. */
const PLACED = `codedock_call_view(c) || jsonb_build_object('runId', c.run_id, 'sessionId', c.session_id,
  'createdAt', codedock_time(c.created_at))`;

/** Tool calls as stored. */
export function toolCallStore(database: Database): ToolCallStore {
  return {
    async get(tenantId, callId) {
      const [row] = await database.rows<{ call: PlacedToolCall }>(
        `SELECT ${PLACED} AS call FROM tool_calls c JOIN sessions s ON s.id = c.session_id
         WHERE c.id = $1 AND c.tenant_id = $2 AND s.deleting_at IS NULL`,
        [existing('tool call', callId), tenantId],
      );
      if (row === undefined) throw missing('tool call', callId);
      return row.call;
    },

    async unknown({ tenantId, sessionId, runId, limit, before }) {
      if ([sessionId, runId, before].some((id) => id !== undefined && !isId(id))) return [];
      const rows = await database.rows<{ call: PlacedToolCall }>(
        `SELECT ${PLACED} AS call FROM unknown_calls u JOIN tool_calls c ON c.id = u.call_id
           JOIN sessions s ON s.id = c.session_id
         WHERE u.tenant_id = $1 AND s.deleting_at IS NULL AND ($2::uuid IS NULL OR c.session_id = $2)
           AND ($3::uuid IS NULL OR c.run_id = $3)
           AND ($4::uuid IS NULL OR (u.created_at, u.call_id) <
             (SELECT b.created_at, b.id FROM tool_calls b WHERE b.id = $4 AND b.tenant_id = $1))
         ORDER BY u.created_at DESC, u.call_id DESC LIMIT $5`,
        [tenantId, sessionId ?? null, runId ?? null, before ?? null, limit],
      );
      return rows.map((row) => row.call);
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
