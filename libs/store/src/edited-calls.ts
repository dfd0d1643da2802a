import type { JsonValue, OpenTurn, RunSnapshot, ToolCall } from '@codedock/domain';
import type { Database } from './database.js';

/** The snapshot, its approved calls without a result with the arguments that their newest approval gave them. */
export async function withEdits(database: Database, snapshot: RunSnapshot): Promise<RunSnapshot> {
  const { openTurn, retriedTurns } = snapshot;
  const approved = [...(openTurn === undefined ? [] : [openTurn]), ...(retriedTurns ?? [])]
    .flatMap(({ calls }) => calls)
    .flatMap(({ id, state, approvalId }) =>
      approvalId !== undefined && (state === 'approved' || state === 'executing') ? [{ id, approvalId }] : [],
    );
  if (approved.length === 0) return snapshot;
  const rows = await database.rows<{ call_id: string; edited_arguments: JsonValue }>(
    `SELECT c.call_id, c.edited_arguments FROM approval_calls c
     JOIN unnest($1::uuid[], $2::uuid[]) AS newest (approval_id, call_id) USING (approval_id, call_id)
     WHERE c.edited_arguments IS NOT NULL`,
    [approved.map(({ approvalId }) => approvalId), approved.map(({ id }) => id)],
  );
  if (rows.length === 0) return snapshot;
  const edits = new Map(rows.map((row) => [row.call_id, row.edited_arguments]));
  const marked = (call: ToolCall): ToolCall => {
    const editedArguments = edits.get(call.id);
    return editedArguments === undefined ? call : { ...call, editedArguments };
  };
  const turn = (open: OpenTurn): OpenTurn => ({ ...open, calls: open.calls.map(marked) });
  return {
    ...snapshot,
    ...(openTurn === undefined ? {} : { openTurn: turn(openTurn) }),
    ...(retriedTurns === undefined ? {} : { retriedTurns: retriedTurns.map(turn) }),
  };
}
