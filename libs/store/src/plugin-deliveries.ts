import { isId } from '@codedock/domain';
import type { Database } from './database.js';
import type { DeliveryBatch, DeliveryState, PluginDeliveryStore } from './plugin-delivery-contract.js';

/** What plugins with durable delivery have been given, and what waits for them. */
export function pluginDeliveryStore(database: Database): PluginDeliveryStore {
  return {
    async take(input) {
      const batch = (await database.call('codedock_plugin_take', input)) as unknown as Partial<DeliveryBatch>;
      return batch.lease === undefined ? undefined : (batch as DeliveryBatch);
    },

    async settle(input) {
      if (!isId(input.sessionId) || !isId(input.lease)) return false;
      const { held } = (await database.call('codedock_plugin_settle', input)) as { held: boolean };
      return held;
    },

    async states() {
      const [row] = await database.rows<{ states: DeliveryState[] }>(
        'SELECT codedock_plugin_deliveries() AS states',
        [],
      );
      return row?.states ?? [];
    },

    async forget(unaskedMs) {
      return (await database.call('codedock_plugin_forget', { unaskedMs })) as unknown as string[];
    },
  };
}
