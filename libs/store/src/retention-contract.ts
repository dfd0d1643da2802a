/** What is kept for a limited time. `messages`: with the tool calls and ended approvals of the same runs. */
export const RETAINED = ['events', 'audit', 'messages'] as const;
export type Retained = (typeof RETAINED)[number];

/** Days, 1 to 36,500, after which something is deleted; absent: no word about it. */
export type RetentionDays = { readonly [kind in Retained]?: number };

/** One batch of a walk. */
export interface PrunedBatch {
  /** Rows deleted; `messages` counts messages alone. */
  readonly pruned: number;
  /** Where the next batch begins; absent when the walk is over. */
  readonly next?: string;
}

export interface PruneInput {
  readonly tenantId: string;
  /** Only what is older, on the database's clock. */
  readonly olderThanDays: number;
  /** About how many rows at most. */
  readonly limit: number;
}

/** Deletes by age, one batch a call; nothing of a run that is not over. */
export interface RetentionStore {
  /** A tenant's own settings. Throws not_found. */
  days(tenantId: string): Promise<RetentionDays>;
  /** Changes what is given; null takes the tenant's own setting away. Audited. Throws not_found. */
  setDays(input: {
    tenantId: string;
    days: { readonly [kind in Retained]?: number | null };
    actor: string;
  }): Promise<RetentionDays>;
  /** Every tenant with its own settings, the installation's among them. */
  tenants(): Promise<readonly { readonly tenantId: string; readonly days: RetentionDays }[]>;
  /** From the front of each session; `prunedSeq` of the session tells up to where. `after`: `next` of the former batch. */
  pruneEvents(input: PruneInput & { readonly after?: string }): Promise<PrunedBatch>;
  /** Whole runs; none of a session with a run that is not over. */
  pruneMessages(input: PruneInput & { readonly after?: string }): Promise<PrunedBatch>;
  pruneAudit(input: PruneInput): Promise<number>;
  /** Claims and stored responses of idempotency keys, and stream tokens, that have expired. */
  pruneExpired(limit: number): Promise<{ readonly idempotencyKeys: number; readonly streamTokens: number }>;
  /** What a plugin or a tool wrote for a session while it was being deleted. Reads all memory of sessions: once a pass. */
  pruneOrphanedMemory(): Promise<void>;
}

/** Sessions that go, with everything in them: at once for everybody, row by row in the database. */
export interface SessionDeletionStore {
  /**
   * From now on the session does not exist for anybody; audited. Harmless when it is being deleted already. Throws
   * not_found, session_busy (a run is not over).
   */
  begin(input: { tenantId: string; sessionId: string; actor: { id: string; name: string } }): Promise<void>;
  /** Deletes about `limit` rows; true when nothing is left. */
  some(tenantId: string, sessionId: string, limit: number): Promise<boolean>;
  /** Sessions that are being deleted, oldest wish first; at most `limit`. */
  pending(limit: number): Promise<readonly { readonly tenantId: string; readonly sessionId: string }[]>;
}
