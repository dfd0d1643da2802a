import type { GateSite, HookRecord, JsonObject } from '@codedock/domain';

/** Hook records of one gate, with where the gate stood. */
export interface SitedRecord {
  readonly record: HookRecord;
  readonly site: GateSite;
}

export interface StoredRecord extends HookRecord {
  readonly id: string;
  readonly runId?: string;
  readonly turnId?: string;
  readonly callId?: string;
  readonly requestId?: string;
  readonly attempt?: number;
  readonly occurredAt: string;
}

export interface AdminAct {
  readonly id: string;
  readonly occurredAt: string;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly detail: JsonObject;
}

export interface AuditStore {
  /** For gates without a run, and for refused input. */
  insert(records: readonly SitedRecord[]): Promise<void>;
  byRun(input: { tenantId: string; runId: string; after?: string; limit: number }): Promise<StoredRecord[]>;
  bySession(input: { tenantId: string; sessionId: string; after?: string; limit: number }): Promise<StoredRecord[]>;
  /** Newest first; `before` is the id of the last one of the former page. */
  acts(input: {
    tenantId: string;
    limit: number;
    before?: string;
    action?: string;
    target?: string;
  }): Promise<AdminAct[]>;
  /** An admin act, or an event of a plugin's life. */
  admin(act: { tenantId?: string; actor: string; action: string; target: string; detail: JsonObject }): Promise<void>;
}
