import { AppError, isAppError } from '@codedock/domain';
import { agentStore } from './agents.js';
import { approvalStore } from './approvals.js';
import { auditStore } from './audit.js';
import type { Store, StoreOptions } from './contract.js';
import { type Database, openDatabase } from './database.js';
import { idempotencyStore } from './idempotency.js';
import { keyStore } from './keys.js';
import { lead } from './lead.js';
import { ledgerStore } from './ledger.js';
import { memoryStore } from './memory.js';
import { messageStore, noticeStore } from './messages.js';
import { MIGRATIONS } from './migration-names.js';
import { pluginDeliveryStore } from './plugin-deliveries.js';
import { pluginValueStore } from './plugin-values.js';
import { pluginStore } from './plugins.js';
import { retentionStore } from './retention.js';
import { runStore } from './runs.js';
import { secretStore } from './secrets.js';
import { sessionDeletionStore } from './session-deletion.js';
import { sessionStore } from './sessions.js';
import { streamTokenStore } from './stream-tokens.js';
import { tenantStore } from './tenants.js';
import { toolCallStore } from './tool-calls.js';
import { traceReader } from './trace.js';
import { webhookStore } from './webhooks.js';

/** Opens the store. Resolves without connecting; `ready` tells whether the database is there and migrated. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const database = openDatabase(options);
  return {
    runs: runStore(database),
    ledger: ledgerStore(database),
    sessions: sessionStore(database),
    sessionDeletion: sessionDeletionStore(database),
    retention: retentionStore(database),
    streamTokens: streamTokenStore(database),
    messages: messageStore(database),
    notices: noticeStore(database),
    approvals: approvalStore(database),
    toolCalls: toolCallStore(database),
    webhooks: webhookStore(database),
    audit: auditStore(database),
    memory: memoryStore(database),
    idempotency: idempotencyStore(database),
    tenants: tenantStore(database),
    keys: keyStore(database),
    agents: agentStore(database),
    plugins: pluginStore(database),
    pluginValues: pluginValueStore(database),
    pluginDeliveries: pluginDeliveryStore(database),
    secrets: secretStore(database),
    trace: traceReader(database),
    lead: (name) => lead(database.directUrl, name),
    ready: () => assertMigrated(database).catch(explain),
    async now() {
      const [row] = await database.rows<{ now: number }>(
        'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
        [],
      );
      return row?.now ?? Number.NaN;
    },
    close: () => database.close(),
  };
}

async function assertMigrated(database: Database): Promise<void> {
  const [table] = await database.rows<{ present: boolean }>(
    "SELECT to_regclass('_prisma_migrations') IS NOT NULL AS present",
    [],
  );
  const rows = table?.present
    ? await database.rows<{ migration_name: string }>(
        'SELECT migration_name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL',
        [],
      )
    : [];
  const applied = new Set(rows.map((row) => row.migration_name));
  const absent = MIGRATIONS.filter((name) => !applied.has(name));
  if (absent.length === 0) return;
  throw new AppError(
    'store_unavailable',
    `The database lacks the migration ${absent.join(', ')}; run the migration job (codedock-migrate).`,
  );
}

/** Who starts a program must learn which variable is wrong; a refused login or database is no broken invariant then. */
function explain(error: unknown): never {
  if (!isAppError(error) || error.cause === undefined) throw error;
  const { code, message } = error.cause as { readonly code?: unknown; readonly message?: unknown };
  const refused = typeof code === 'string' && /^(28|3D)/.test(code) ? String(message) : undefined;
  if (refused === undefined && error.code !== 'store_unavailable') throw error;
  const why = refused ?? (typeof code === 'string' ? code : 'no answer');
  throw new AppError(
    'store_unavailable',
    `The database of DATABASE_URL cannot be used: ${why}. Check the URL, and that PostgreSQL runs there and lets this user in.`,
    { cause: error.cause, retryAfterMs: 1_000 },
  );
}
