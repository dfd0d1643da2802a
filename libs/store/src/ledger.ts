import { isId, type LedgerEvent, type NewLedgerEvent } from '@codedock/domain';
import type { Database } from './database.js';
import type { AppendBatch, Appended, LedgerStore } from './ledger-contract.js';

interface AppendResult {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly occurredAt: string;
  readonly scratchpad?: Appended['scratchpad'];
}

/** The ledger: appending is one statement, whatever the batch holds. */
export function ledgerStore(database: Database): LedgerStore {
  return {
    async append(batch) {
      const result = (await database.call('codedock_append', batch)) as unknown as AppendResult;
      return {
        firstSeq: batch.events.length === 0 ? 0 : result.firstSeq,
        lastSeq: result.lastSeq,
        events: batch.events.map((event, index) => stored(batch, event, result.firstSeq + index, result.occurredAt)),
        ...(result.scratchpad === undefined ? {} : { scratchpad: result.scratchpad }),
      };
    },

    async since({ tenantId, sessionId, after, limit, runId }) {
      if (!isId(sessionId) || (runId !== undefined && !isId(runId))) return [];
      const rows = await database.rows<{ event: LedgerEvent }>(
        `SELECT codedock_event_view(e) AS event FROM events e
         WHERE e.session_id = $1 AND e.tenant_id = $2 AND e.seq > $3 AND ($4::uuid IS NULL OR e.run_id = $4)
         ORDER BY e.seq LIMIT $5`,
        [sessionId, tenantId, after, runId ?? null, limit],
      );
      return rows.map((row) => row.event);
    },

    async prunedSeq(tenantId, sessionId) {
      if (!isId(sessionId)) return 0;
      const [row] = await database.rows<{ pruned_seq: string }>(
        'SELECT pruned_seq FROM sessions WHERE id = $1 AND tenant_id = $2',
        [sessionId, tenantId],
      );
      return Number(row?.pruned_seq ?? 0);
    },

    async lastSeqs(sessionIds) {
      const rows = await database.rows<{ id: string; last_seq: string }>(
        'SELECT id, last_seq FROM sessions WHERE id = ANY($1::uuid[]) AND deleting_at IS NULL',
        [sessionIds.filter(isId)],
      );
      return new Map(rows.map((row) => [row.id, Number(row.last_seq)]));
    },
  };
}

/** The event as a later read gives it, made without reading it. */
function stored(batch: AppendBatch, event: NewLedgerEvent, seq: number, occurredAt: string): LedgerEvent {
  return {
    ...withStoredMessage(event, seq, occurredAt),
    sessionId: batch.sessionId,
    ...(batch.run === undefined ? {} : { runId: batch.run.runId }),
    ...(batch.run?.token === undefined ? {} : { attempt: batch.run.token }),
    seq,
    version: 1,
    occurredAt,
  };
}

function withStoredMessage(event: NewLedgerEvent, eventSeq: number, createdAt: string): NewLedgerEvent {
  switch (event.type) {
    case 'assistant.completed':
      return { ...event, payload: { ...event.payload, message: { ...event.payload.message, eventSeq, createdAt } } };
    case 'message.notice':
      return { ...event, payload: { ...event.payload, message: { ...event.payload.message, eventSeq, createdAt } } };
    case 'run.created':
      return { ...event, payload: { ...event.payload, message: { ...event.payload.message, eventSeq, createdAt } } };
    default:
      return event;
  }
}
