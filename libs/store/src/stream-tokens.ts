import { isId, type Scope } from '@codedock/domain';
import type { Database } from './database.js';
import { existing, missing } from './identity.js';
import { LIVE_KEY } from './keys.js';
import type { StreamTokenStore } from './stream-token-contract.js';

const CREATE = `INSERT INTO stream_tokens AS t (hash, tenant_id, key_id, session_id, run_id, expires_at)
    SELECT $1, s.tenant_id, $3, s.id, r.id, codedock_now() + $6::bigint * interval '1 millisecond'
    FROM sessions s LEFT JOIN runs r ON r.id = $5::uuid AND r.session_id = s.id
    WHERE s.id = $4 AND s.tenant_id = $2 AND s.deleting_at IS NULL AND ($5::uuid IS NULL OR r.id IS NOT NULL)
  RETURNING codedock_time(t.expires_at) AS expires_at`;
const CREATE_CLAIMED = `WITH created AS (${CREATE}), completed AS (
    SELECT codedock_complete_claim($2::uuid, $7::jsonb,
      ($7::jsonb->'body') || jsonb_build_object('expiresAt', expires_at)) FROM created)
  SELECT created.expires_at FROM created, completed`;

/** Stream tokens: short-lived, bound to a session or run and to the key they act for. */
export function streamTokenStore(database: Database): StreamTokenStore {
  return {
    async create({ tenantId, keyId, hash, sessionId, runId, ttlMs }, idempotency) {
      const values = [
        hash,
        tenantId,
        keyId,
        existing('session', sessionId),
        runId === undefined ? null : existing('run', runId),
        ttlMs,
      ];
      const [row] =
        idempotency === undefined
          ? await database.rows<{ expires_at: string }>(CREATE, values)
          : await database.rows<{ expires_at: string }>(CREATE_CLAIMED, [...values, JSON.stringify(idempotency)]);
      if (row === undefined) throw missing('session', sessionId);
      return row.expires_at;
    },

    async authenticate(hash, { sessionId, runId }) {
      if ([sessionId, runId].some((id) => id !== undefined && !isId(id))) return undefined;
      const [row] = await database.rows<{
        tenant_id: string;
        id: string;
        name: string;
        scopes: Scope[];
        requests_per_second: number | null;
      }>(
        `SELECT k.tenant_id, k.id, k.name, k.scopes, tenants.requests_per_second
         FROM stream_tokens t JOIN api_keys k ON k.id = t.key_id JOIN tenants ON tenants.id = k.tenant_id
         WHERE t.hash = $1 AND t.expires_at > clock_timestamp() AND ${LIVE_KEY}
           AND CASE WHEN $3::uuid IS NULL THEN t.run_id IS NULL AND t.session_id = $2::uuid
             ELSE t.run_id = $3::uuid OR t.run_id IS NULL AND EXISTS (
               SELECT 1 FROM runs r WHERE r.id = $3::uuid AND r.session_id = t.session_id) END`,
        [hash, sessionId ?? null, runId ?? null],
      );
      if (row === undefined) return undefined;
      return {
        tenantId: row.tenant_id,
        keyId: row.id,
        keyName: row.name,
        scopes: row.scopes,
        ...(row.requests_per_second === null ? {} : { requestsPerSecond: row.requests_per_second }),
      };
    },

    async keyIsLive(tenantId, keyId) {
      const rows = await database.rows(
        `SELECT 1 FROM api_keys k WHERE k.id = $1 AND k.tenant_id = $2 AND ${LIVE_KEY}`,
        [keyId, tenantId],
      );
      return rows.length > 0;
    },
  };
}
