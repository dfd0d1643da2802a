import type { Database } from './database.js';
import type { Claim, IdempotencyStore } from './idempotency-contract.js';

/** Claims of idempotency keys: who holds one may create; whoever comes second waits or gets the stored response. */
export function idempotencyStore(database: Database): IdempotencyStore {
  return {
    async claim(input) {
      return (await database.call('codedock_claim', input)) as unknown as Claim;
    },
    async release({ tenantId, route, key, ownerToken }) {
      await database.rows(
        `DELETE FROM idempotency_keys
         WHERE tenant_id = $1 AND route = $2 AND key = $3 AND owner_token = $4 AND status IS NULL`,
        [tenantId, route, key, ownerToken],
      );
    },
    async complete({ tenantId, route, key, ownerToken, response }) {
      await database.rows('SELECT codedock_complete_claim($1, $2::jsonb, $3::jsonb)', [
        tenantId,
        JSON.stringify({ route, key, ownerToken, status: response.status }),
        JSON.stringify(response.body),
      ]);
    },
  };
}
