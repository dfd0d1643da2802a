import type { JsonValue } from '@codedock/domain';
import type { Database } from './database.js';
import { INSTALLATION } from './installation.js';
import type { PluginValueChange, PluginValueStore, PluginValueView } from './plugin-value-contract.js';

interface ShownRow {
  key: string;
  tenant_id: string;
  updated_by: string;
  updated_at: string;
}

const SHOWN = 'key, tenant_id, updated_by, codedock_time(updated_at) AS updated_at';

/** Settings and secrets of plugins. A change and its audit row are one statement. */
export function pluginValueStore(database: Database): PluginValueStore {
  /** `statement` changes one row, of owner $1, plugin $2 and key $3, and returns it. */
  async function change(
    statement: string,
    { tenantId, plugin, key, global = false, actor }: PluginValueChange,
    action: string,
    values: readonly unknown[] = [],
  ): Promise<boolean> {
    const rows = await database.rows(
      `WITH changed AS (${statement})
       INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
         SELECT $4::uuid, $5::text, $6::text, $2::text, jsonb_build_object('key', $3::text, 'scope', $7::text) FROM changed
         RETURNING 1`,
      [global ? INSTALLATION : tenantId, plugin, key, tenantId, actor, action, global ? 'global' : 'tenant', ...values],
    );
    return rows.length > 0;
  }
  return {
    globalOwner: INSTALLATION,

    async setting({ tenantId, plugin, key }) {
      const [row] = await database.rows<{ value: JsonValue }>(
        `SELECT value FROM plugin_settings WHERE tenant_id IN ($1, $4) AND plugin = $2 AND key = $3
         ORDER BY tenant_id = $4 LIMIT 1`,
        [tenantId, plugin, key, INSTALLATION],
      );
      return row;
    },

    async setSetting(input) {
      await change(
        `INSERT INTO plugin_settings (tenant_id, plugin, key, value, updated_by) VALUES ($1::uuid, $2, $3, $8::jsonb, $5)
         ON CONFLICT (tenant_id, plugin, key)
           DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = clock_timestamp()
         RETURNING 1`,
        input,
        'plugin.setting_set',
        [JSON.stringify(input.value)],
      );
    },

    removeSetting: (input) =>
      change(
        'DELETE FROM plugin_settings WHERE tenant_id = $1::uuid AND plugin = $2 AND key = $3 RETURNING 1',
        input,
        'plugin.setting_removed',
      ),

    async settings({ tenantId, plugin }) {
      const rows = await database.rows<ShownRow & { value: JsonValue }>(
        `SELECT ${SHOWN}, value FROM plugin_settings WHERE tenant_id IN ($1, $3) AND plugin = $2
         ORDER BY key, tenant_id = $3`,
        [tenantId, plugin, INSTALLATION],
      );
      return rows.map((row) => ({ ...viewOf(row), value: row.value }));
    },

    async secret({ tenantId, plugin, key }) {
      const [row] = await database.rows<{ key_id: string; sealed: Buffer; tenant_id: string }>(
        `SELECT key_id, sealed, tenant_id FROM plugin_secrets WHERE tenant_id IN ($1, $4) AND plugin = $2 AND key = $3
         ORDER BY tenant_id = $4 LIMIT 1`,
        [tenantId, plugin, key, INSTALLATION],
      );
      return row === undefined ? undefined : { keyId: row.key_id, bytes: row.sealed, owner: row.tenant_id };
    },

    async setSecret(input) {
      await change(
        `INSERT INTO plugin_secrets (tenant_id, plugin, key, key_id, sealed, updated_by)
           VALUES ($1::uuid, $2, $3, $8, $9::bytea, $5)
         ON CONFLICT (tenant_id, plugin, key) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed,
           updated_by = excluded.updated_by, updated_at = clock_timestamp()
         RETURNING 1`,
        input,
        'plugin.secret_set',
        [input.sealed.keyId, Buffer.from(input.sealed.bytes)],
      );
    },

    removeSecret: (input) =>
      change(
        'DELETE FROM plugin_secrets WHERE tenant_id = $1::uuid AND plugin = $2 AND key = $3 RETURNING 1',
        input,
        'plugin.secret_removed',
      ),

    async secrets({ tenantId, plugin }) {
      const rows = await database.rows<ShownRow>(
        `SELECT ${SHOWN} FROM plugin_secrets WHERE tenant_id IN ($1, $3) AND plugin = $2 ORDER BY key, tenant_id = $3`,
        [tenantId, plugin, INSTALLATION],
      );
      return rows.map(viewOf);
    },
  };
}

function viewOf(row: ShownRow): PluginValueView {
  return {
    key: row.key,
    scope: row.tenant_id === INSTALLATION ? 'global' : 'tenant',
    updatedBy: row.updated_by,
    updatedAt: row.updated_at,
  };
}
