import { isId } from '@codedock/domain';
import type { Database } from './database.js';
import { existing, missing } from './identity.js';
import type { TakenDelivery, Webhook, WebhookDelivery, WebhookStore } from './webhook-contract.js';

const CREATE = `INSERT INTO webhooks AS w (id, tenant_id, url, description, events, secret, created_by)
  VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING codedock_webhook_view(w) AS webhook`;
const CREATE_CLAIMED = `WITH created AS (${CREATE}), completed AS (
    SELECT codedock_complete_claim($2::uuid, $8::jsonb, ($8::jsonb->'body') || webhook) FROM created)
  SELECT webhook FROM created, completed`;

/** Webhooks and what is due to them. */
export function webhookStore(database: Database): WebhookStore {
  return {
    async create({ tenantId, id, url, description, events, secret, createdBy }, idempotency) {
      const values = [id, tenantId, url, description ?? null, [...events], secret, createdBy];
      const [row] =
        idempotency === undefined
          ? await database.rows<{ webhook: Webhook }>(CREATE, values)
          : await database.rows<{ webhook: Webhook }>(CREATE_CLAIMED, [...values, JSON.stringify(idempotency)]);
      if (row === undefined) throw missing('webhook', id);
      return row.webhook;
    },

    async get(tenantId, webhookId) {
      const [row] = await database.rows<{ webhook: Webhook }>(
        'SELECT codedock_webhook_view(w) AS webhook FROM webhooks w WHERE w.id = $1 AND w.tenant_id = $2',
        [existing('webhook', webhookId), tenantId],
      );
      if (row === undefined) throw missing('webhook', webhookId);
      return row.webhook;
    },

    async list(tenantId) {
      const rows = await database.rows<{ webhook: Webhook }>(
        `SELECT codedock_webhook_view(w) AS webhook FROM webhooks w WHERE w.tenant_id = $1
         ORDER BY w.created_at, w.id`,
        [tenantId],
      );
      return rows.map((row) => row.webhook);
    },

    async delete(tenantId, webhookId) {
      const rows = await database.rows('DELETE FROM webhooks WHERE id = $1 AND tenant_id = $2 RETURNING id', [
        existing('webhook', webhookId),
        tenantId,
      ]);
      if (rows.length === 0) throw missing('webhook', webhookId);
    },

    async deliveries({ tenantId, webhookId, limit, before }) {
      if (!isId(webhookId) || (before !== undefined && !isId(before))) return [];
      const rows = await database.rows<{ delivery: WebhookDelivery }>(
        `SELECT jsonb_strip_nulls(jsonb_build_object('id', d.id, 'eventId', d.event_id, 'sessionId', d.session_id,
           'seq', d.seq, 'type', d.type, 'state', d.state, 'attempts', d.attempts, 'responseStatus', d.response_status,
           'error', d.error, 'createdAt', codedock_time(d.created_at),
           'nextAt', CASE d.state WHEN 'pending' THEN codedock_time(d.next_at) END,
           'settledAt', codedock_time(d.settled_at))) AS delivery
         FROM webhook_deliveries d
         WHERE d.webhook_id = $1 AND d.tenant_id = $2 AND ($3::uuid IS NULL OR (d.created_at, d.id) <
           (SELECT b.created_at, b.id FROM webhook_deliveries b WHERE b.id = $3 AND b.tenant_id = $2))
         ORDER BY d.created_at DESC, d.id DESC LIMIT $4`,
        [webhookId, tenantId, before ?? null, limit],
      );
      return rows.map((row) => row.delivery);
    },

    async fanOut() {
      const [row] = await database.rows<{ made: number }>('SELECT codedock_webhook_fan_out() AS made', []);
      return row?.made ?? 0;
    },

    async take(input) {
      return (await database.call('codedock_webhook_take', input)) as unknown as TakenDelivery[];
    },

    async settle(input) {
      return (await database.call('codedock_webhook_settle', input)) as { disabled?: string };
    },

    async forget(olderThanMs, limit) {
      const rows = await database.rows(
        `DELETE FROM webhook_deliveries WHERE ctid = ANY (ARRAY(SELECT ctid FROM webhook_deliveries
           WHERE state <> 'pending' AND settled_at < clock_timestamp() - $1::float8 * interval '1 millisecond' LIMIT $2))
         RETURNING 1`,
        [olderThanMs, limit],
      );
      return rows.length;
    },
  };
}
