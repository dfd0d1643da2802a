import { type Logger, metrics } from '@codedock/platform';
import type { Store } from '@codedock/store';

/** How often the counts are read, milliseconds. */
const EVERY_MS = 5_000;

/**
 * Keeps the gauges of waiting runs, which autoscalers read. Every gateway reports the same counts; a database that
 * cannot be asked leaves the last ones, and is logged once until it can. The returned function ends it.
 */
export function startQueueGauges(runs: Pick<Store['runs'], 'counts'>, logger: Pick<Logger, 'warn'>): () => void {
  let stale = false;
  const read = async () => {
    const { queued, pending, expiredLeases, oldestQueuedMs } = await runs.counts();
    metrics.runsQueued.set(queued, {});
    metrics.runsPending.set(pending, {});
    metrics.leasesExpired.set(expiredLeases, {});
    metrics.queueAge.set(oldestQueuedMs / 1_000, {});
    stale = false;
  };
  const failed = (error: unknown) => {
    if (!stale) logger.warn({ err: error }, 'waiting runs could not be counted; their metrics keep the last counts');
    stale = true;
  };
  // A gauge that was never touched is no zero.
  metrics.sseClients.add(0, {});
  const timer = setInterval(() => void read().catch(failed), EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}
