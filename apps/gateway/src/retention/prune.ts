import { RETAINED, type Retained, type RetentionDays, type RetentionStore, type Store } from '@codedock/store';

/** Rows of one statement. */
const BATCH = 1_000;
/** How long the outcome of a webhook's delivery can be looked up, milliseconds. */
const KEPT_DELIVERIES_MS = 7 * 24 * 3_600_000;
const DELETING_AT_ONCE = 100;

/** Rows deleted, by what they were. */
export type Pruned = Record<Retained | 'deliveries' | 'idempotencyKeys' | 'streamTokens' | 'sessions', number>;

export interface PruneOptions {
  readonly store: Pick<Store, 'retention' | 'sessionDeletion' | 'webhooks'>;
  /** Where a tenant has no setting of its own. */
  readonly defaults: RetentionDays;
  /** Ends the pass after the batch in progress. */
  readonly signal: AbortSignal;
  /** Told of what could not be done; the rest goes on. */
  readonly onFailure: (error: unknown, what: Readonly<Record<string, string>>) => void;
}

/** One pass over everything whose time is over. Batches are small, so that nobody waits for one. */
export async function pruneOnce({ store, defaults, signal, onFailure }: PruneOptions): Promise<Pruned> {
  const { retention, webhooks } = store;
  const pruned: Pruned = {
    events: 0,
    audit: 0,
    messages: 0,
    deliveries: 0,
    idempotencyKeys: 0,
    streamTokens: 0,
    sessions: await finishDeletions({ store, signal, onFailure }),
  };
  for (const { tenantId, days } of await retention.tenants()) {
    for (const kind of RETAINED) {
      const olderThanDays = days[kind] ?? defaults[kind];
      if (olderThanDays === undefined) continue;
      try {
        pruned[kind] += await pruneKind(retention, kind, { tenantId, olderThanDays, limit: BATCH }, signal);
      } catch (error) {
        onFailure(error, { tenantId, kind });
      }
    }
  }
  pruned.deliveries = await untilFew(() => webhooks.forget(KEPT_DELIVERIES_MS, BATCH), signal);
  for (let more = true; more && !signal.aborted; ) {
    const { idempotencyKeys, streamTokens } = await retention.pruneExpired(BATCH);
    pruned.idempotencyKeys += idempotencyKeys;
    pruned.streamTokens += streamTokens;
    more = idempotencyKeys === BATCH || streamTokens === BATCH;
  }
  if (!signal.aborted) await retention.pruneOrphanedMemory();
  return pruned;
}

/** Goes on with sessions that are being deleted; returns how many are gone. */
export async function finishDeletions({
  store: { sessionDeletion },
  signal,
  onFailure,
}: Pick<PruneOptions, 'store' | 'signal' | 'onFailure'>): Promise<number> {
  let gone = 0;
  for (const { tenantId, sessionId } of await sessionDeletion.pending(DELETING_AT_ONCE)) {
    let done = false;
    try {
      while (!done && !signal.aborted) done = await sessionDeletion.some(tenantId, sessionId, BATCH);
      if (done) gone += 1;
    } catch (error) {
      onFailure(error, { tenantId, sessionId });
    }
  }
  return gone;
}

async function pruneKind(
  retention: RetentionStore,
  kind: Retained,
  input: { tenantId: string; olderThanDays: number; limit: number },
  signal: AbortSignal,
): Promise<number> {
  if (kind === 'audit') return untilFew(() => retention.pruneAudit(input), signal);
  let pruned = 0;
  let after: string | undefined;
  do {
    const at = after === undefined ? input : { ...input, after };
    const batch = await (kind === 'events' ? retention.pruneEvents(at) : retention.pruneMessages(at));
    pruned += batch.pruned;
    after = batch.next;
  } while (after !== undefined && !signal.aborted);
  return pruned;
}

/** Batch after batch until one is not full. */
async function untilFew(batch: () => Promise<number>, signal: AbortSignal): Promise<number> {
  let total = 0;
  for (let last = BATCH; last >= BATCH && !signal.aborted; total += last) last = await batch();
  return total;
}
