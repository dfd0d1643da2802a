import type { AgentStore } from './agent-contract.js';
import type { ApprovalStore } from './approval-contract.js';
import type { AuditStore } from './audit-contract.js';
import type { IdempotencyStore } from './idempotency-contract.js';
import type { KeyStore } from './key-contract.js';
import type { LedgerStore } from './ledger-contract.js';
import type { MemoryEditing, MemoryStore } from './memory-contract.js';
import type { PluginStore } from './plugin-contract.js';
import type { PluginDeliveryStore } from './plugin-delivery-contract.js';
import type { PluginValueStore } from './plugin-value-contract.js';
import type { RetentionStore, SessionDeletionStore } from './retention-contract.js';
import type { RunStore } from './run-contract.js';
import type { SecretStore } from './secret-contract.js';
import type { MessageStore, NoticeStore, SessionStore } from './session-contract.js';
import type { StreamTokenStore } from './stream-token-contract.js';
import type { TenantStore } from './tenant-contract.js';
import type { ToolCallStore } from './tool-call-contract.js';
import type { RunTrace } from './trace-contract.js';
import type { WebhookStore } from './webhook-contract.js';

export interface StoreOptions {
  readonly url: string;
  /** Beside a pooler: a direct URL for session-level locks. Default: `url`. */
  readonly directUrl?: string;
  /** Connections of the shared pool; 1–100, default 10. */
  readonly maxConnections?: number;
  /** Longest time one statement may take, milliseconds; default 30,000. A server that has vanished keeps nobody longer. */
  readonly statementTimeoutMs?: number;
  /** Told about connections that broke while idle. */
  readonly onConnectionError?: (error: Error) => void;
}

/** A session-level lock held on its own connection. */
export interface Leadership {
  /** False once the connection, and with it the lock, is gone. */
  readonly held: boolean;
  release(): Promise<void>;
}

/** Everything in PostgreSQL. Throws store_unavailable when the database cannot be reached, invalid_request for ill-formed text. */
export interface Store {
  readonly runs: RunStore;
  readonly ledger: LedgerStore;
  readonly sessions: SessionStore;
  readonly sessionDeletion: SessionDeletionStore;
  readonly retention: RetentionStore;
  readonly streamTokens: StreamTokenStore;
  readonly messages: MessageStore;
  readonly notices: NoticeStore;
  readonly approvals: ApprovalStore;
  readonly toolCalls: ToolCallStore;
  readonly webhooks: WebhookStore;
  readonly audit: AuditStore;
  readonly memory: MemoryStore & MemoryEditing;
  readonly idempotency: IdempotencyStore;
  readonly tenants: TenantStore;
  readonly keys: KeyStore;
  readonly agents: AgentStore;
  readonly plugins: PluginStore;
  readonly pluginValues: PluginValueStore;
  readonly pluginDeliveries: PluginDeliveryStore;
  readonly secrets: SecretStore;
  /** The database's clock, milliseconds since the epoch. */
  now(): Promise<number>;
  /** Gate waterfall of a run. Throws not_found. */
  trace(tenantId: string, runId: string): Promise<RunTrace>;
  /** Tries to become leader for a name; undefined when another process is. */
  lead(name: string): Promise<Leadership | undefined>;
  /** Resolves when the database answers and its migrations are those of this build; else throws store_unavailable. */
  ready(): Promise<void>;
  close(): Promise<void>;
}
