import type { JsonObject } from '@codedock/domain';
import type { Database } from './database.js';
import { INSTALLATION } from './installation.js';
import type { DesiredPlugins, PluginStore } from './plugin-contract.js';

/** What the installation wants of its plugins. Every change raises the epoch and is audited, in one statement. */
export function pluginStore(database: Database): PluginStore {
  async function desired(): Promise<DesiredPlugins> {
    const [row] = await database.rows<{ epoch: string; disabled: string[] }>(
      `SELECT epoch, ARRAY(SELECT plugin FROM disabled_plugins WHERE tenant_id = $1 ORDER BY plugin) AS disabled
       FROM plugin_chains WHERE tenant_id = $1`,
      [INSTALLATION],
    );
    return { epoch: Number(row?.epoch ?? 0), disabled: row?.disabled ?? [] };
  }
  /** `change` is a data-modifying statement that returns one row when something changed. */
  async function change(
    statement: string,
    act: { plugin: string; actor: string; tenantId: string; reason?: string },
    action: string,
  ): Promise<DesiredPlugins> {
    await database.rows(
      `WITH changed AS (${statement}),
       raised AS (UPDATE plugin_chains SET epoch = epoch + 1, updated_at = clock_timestamp()
         WHERE tenant_id = $1 AND EXISTS (SELECT 1 FROM changed))
       INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
         SELECT $5::uuid, $3, $6, $2, jsonb_strip_nulls(jsonb_build_object('reason', $4::text)) FROM changed`,
      [INSTALLATION, act.plugin, act.actor, act.reason ?? null, act.tenantId, action],
    );
    return desired();
  }
  return {
    desired,

    disable: (act) =>
      change(
        `INSERT INTO disabled_plugins (tenant_id, plugin, disabled_by, reason) VALUES ($1::uuid, $2::text, $3::text, $4::text)
         ON CONFLICT (tenant_id, plugin) DO NOTHING RETURNING 1`,
        act,
        'plugin.disabled',
      ),

    enable: (act) =>
      change(
        'DELETE FROM disabled_plugins WHERE tenant_id = $1::uuid AND plugin = $2::text RETURNING 1',
        act,
        'plugin.enabled',
      ),

    async raiseEpoch(actor) {
      await database.rows(
        `WITH raised AS (UPDATE plugin_chains SET epoch = epoch + 1, updated_at = clock_timestamp()
           WHERE tenant_id = $1 RETURNING epoch)
         INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
           SELECT $1::uuid, $2, 'plugins.epoch_raised', 'chain', jsonb_build_object('epoch', epoch) FROM raised`,
        [INSTALLATION, actor],
      );
      return desired();
    },

    async saveSnapshot(epoch, snapshot) {
      await database.rows(
        `UPDATE plugin_chains SET snapshot = $2::jsonb, snapshot_epoch = $3
         WHERE tenant_id = $1 AND (snapshot_epoch IS NULL OR snapshot_epoch <= $3)`,
        [INSTALLATION, JSON.stringify(snapshot), epoch],
      );
    },

    async loadSnapshot() {
      const [row] = await database.rows<{ snapshot: JsonObject; snapshot_epoch: string }>(
        'SELECT snapshot, snapshot_epoch FROM plugin_chains WHERE tenant_id = $1 AND snapshot IS NOT NULL',
        [INSTALLATION],
      );
      return row === undefined ? undefined : { epoch: Number(row.snapshot_epoch), snapshot: row.snapshot };
    },
  };
}
