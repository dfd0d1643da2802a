import type { Leadership } from '@codedock/store';
import { admitRuns } from './admit-runs.js';
import { afterCommit, publishEvents, ringAll } from './after-commit.js';
import { cancelRun } from './cancel-run.js';
import { LostRings } from './lost-rings.js';
import type { RunPorts } from './ports.js';

/** How often to look, and at what. */
export interface ReconcilerOptions {
  /** Default 1,000. */
  readonly intervalMs?: number;
  /** Share of an approval's life (0–1) after which people are reminded of it once. Default 0.5; 0 never. */
  readonly reminderShare?: number;
}

/** A running reconciler. */
export interface Reconciler {
  /** True while this process is the leader. */
  readonly leading: boolean;
  /** Resolves when the pass in progress is over and the lock is given up. */
  stop(): Promise<void>;
}

/**
 * Makes good what was lost between commit and doorbell, once a second, in the one process that holds the advisory lock:
 * rings queued runs whose ring is lost and runs with an expired lease, ends runs whose canceller died, expires
 * approvals and reminds of them, admits pending runs. Whatever fails is reported and tried again in the next pass.
 */
export function startReconciler(ports: RunPorts, options: ReconcilerOptions = {}): Reconciler {
  const stopping = new AbortController();
  let leadership: Leadership | undefined;
  const lostRings = new LostRings();
  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        if (leadership?.held !== true) leadership = await ports.store.lead('reconciler');
        if (leadership !== undefined) await reconcileOnce(ports, options, lostRings);
      } catch (error) {
        ports.report({ kind: 'reconcile_failed', error });
      }
      await ports.clock.sleep(options.intervalMs ?? 1_000, stopping.signal);
    }
    await leadership?.release();
  };
  const done = loop();
  return {
    get leading() {
      return leadership?.held === true;
    },
    stop: () => {
      stopping.abort();
      return done;
    },
  };
}

/** One pass over everything that is due. */
export async function reconcileOnce(
  ports: RunPorts,
  { reminderShare = 0.5 }: Pick<ReconcilerOptions, 'reminderShare'> = {},
  lostRings = new LostRings(),
): Promise<void> {
  const due = await ports.store.runs.due();
  await ringAll(ports, due.rings);
  await reported(ports, undefined, () => lostRings.ringAgain(ports));
  for (const { tenantId, runId } of due.cancels) {
    await reported(ports, runId, () => cancelRun(ports, { tenantId, runId, actor: 'host' }));
  }
  for (const { tenantId, approvalId } of due.expiredApprovals) {
    await reported(ports, undefined, async () => {
      const expired = await ports.store.approvals.expire(tenantId, approvalId);
      if (expired === undefined) return;
      await afterCommit(ports, { events: expired.events, rings: expired.ring === undefined ? [] : [expired.ring] });
    });
  }
  for (const tenantId of due.tenants) await reported(ports, undefined, () => admitRuns(ports, tenantId));
  if (reminderShare > 0) await remindOfApprovals(ports, reminderShare);
}

async function remindOfApprovals(ports: RunPorts, share: number): Promise<void> {
  for (const { tenantId, approvalId } of await ports.store.approvals.dueReminders(share)) {
    await reported(ports, undefined, async () => {
      publishEvents(ports.bus, await ports.store.approvals.remind(tenantId, approvalId));
    });
  }
}

async function reported(ports: RunPorts, runId: string | undefined, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    ports.report({ kind: 'reconcile_failed', error, ...(runId === undefined ? {} : { runId }) });
  }
}
