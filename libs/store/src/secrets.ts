import type { Database } from './database.js';
import type { SecretCount, SecretStore } from './secret-contract.js';

/** Name of the key of a webhook's secret; empty when it is not encrypted. */
const WEBHOOK_KEY = "CASE WHEN w.secret LIKE 'sealed:%' THEN split_part(w.secret, ':', 2) ELSE '' END";
const CURSOR = "s.tenant_id::text || '/' || s.plugin || '/' || s.key";

/** Secrets of plugins and webhooks, as they are stored. */
export function secretStore(database: Database): SecretStore {
  return {
    async counts() {
      const rows = await database.rows<{ kind: SecretCount['kind']; key_id: string; count: string }>(
        `SELECT 'plugin' AS kind, key_id, count(*) AS count FROM plugin_secrets GROUP BY key_id
         UNION ALL SELECT 'webhook', ${WEBHOOK_KEY}, count(*) FROM webhooks w GROUP BY 2 ORDER BY 1, 2`,
        [],
      );
      return rows.map((row) => ({ kind: row.kind, keyId: row.key_id, count: Number(row.count) }));
    },

    async stalePluginSecrets({ keyId, after, limit }) {
      const rows = await database.rows<{
        tenant_id: string;
        plugin: string;
        key: string;
        key_id: string;
        sealed: Buffer;
        cursor: string;
      }>(
        `SELECT s.tenant_id, s.plugin, s.key, s.key_id, s.sealed, ${CURSOR} AS cursor FROM plugin_secrets s
         WHERE s.key_id <> $1 AND (${CURSOR}) COLLATE "C" > $2 ORDER BY (${CURSOR}) COLLATE "C" LIMIT $3`,
        [keyId, after, limit],
      );
      return rows.map((row) => ({
        tenantId: row.tenant_id,
        plugin: row.plugin,
        key: row.key,
        sealed: { keyId: row.key_id, bytes: row.sealed },
        cursor: row.cursor,
      }));
    },

    async replacePluginSecret({ tenantId, plugin, key, sealed: former }, sealed) {
      const rows = await database.rows(
        `UPDATE plugin_secrets SET key_id = $5, sealed = $6::bytea
         WHERE tenant_id = $1 AND plugin = $2 AND key = $3 AND sealed = $4::bytea RETURNING 1`,
        [tenantId, plugin, key, Buffer.from(former.bytes), sealed.keyId, Buffer.from(sealed.bytes)],
      );
      return rows.length > 0;
    },

    async staleWebhooks({ keyId, after, limit }) {
      const rows = await database.rows<{ id: string; tenant_id: string; secret: string }>(
        `SELECT w.id, w.tenant_id, w.secret FROM webhooks w
         WHERE ${WEBHOOK_KEY} <> $1 AND w.id::text > $2 ORDER BY w.id::text LIMIT $3`,
        [keyId, after, limit],
      );
      return rows.map((row) => ({
        tenantId: row.tenant_id,
        webhookId: row.id,
        secret: row.secret,
        cursor: row.id,
      }));
    },

    async replaceWebhook({ tenantId, webhookId, secret: former }, secret) {
      const rows = await database.rows(
        'UPDATE webhooks SET secret = $4 WHERE id = $1 AND tenant_id = $2 AND secret = $3 RETURNING 1',
        [webhookId, tenantId, former, secret],
      );
      return rows.length > 0;
    },
  };
}
