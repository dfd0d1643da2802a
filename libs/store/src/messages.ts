import { isId, type Message } from '@codedock/domain';
import type { Database } from './database.js';
import { ledgerStore } from './ledger.js';
import type { MessageStore, NoticeStore } from './session-contract.js';

/** The messages of a session, notices among them. */
export function messageStore(database: Database): MessageStore {
  return {
    async list({ tenantId, sessionId, after, limit }) {
      if (!isId(sessionId)) return [];
      const rows = await database.rows<{ message: Message }>(
        `SELECT codedock_message_view(m) AS message FROM messages m
         WHERE m.session_id = $1 AND m.tenant_id = $2 AND m.event_seq > $3 ORDER BY m.event_seq, m.id LIMIT $4`,
        [sessionId, tenantId, after ?? 0, limit],
      );
      return rows.map((row) => row.message);
    },
  };
}

/** Notices: shown to people, never part of a model's context. */
export function noticeStore(database: Database): NoticeStore {
  const ledger = ledgerStore(database);
  return {
    async append(input) {
      const { tenantId, sessionId, runId, eventId } = input;
      const message: Message = {
        id: input.messageId,
        sessionId,
        ...(runId === undefined ? {} : { runId }),
        role: 'system',
        kind: 'notice',
        content: { text: input.text },
        eventSeq: 0,
        createdAt: new Date().toISOString(),
      };
      return ledger.append({
        tenantId,
        sessionId,
        ...(runId === undefined ? {} : { run: { runId } }),
        events: [
          {
            eventId,
            type: 'message.notice',
            payload: { message, ...(input.plugin === undefined ? {} : { plugin: input.plugin }) },
          },
        ],
        changes: { messages: [{ message, eventId }] },
      });
    },
  };
}
