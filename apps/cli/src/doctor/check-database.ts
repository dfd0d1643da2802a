import { probeQueue } from '@codedock/queue';
import { openStore, type Store } from '@codedock/store';
import { about, type Finding, textOfError } from './finding.js';

/** What expires goes by the database's clock; a machine whose own differs by more writes misleading logs and traces, milliseconds. */
const SKEW_MS = 5_000;
const NOTICEABLE_SKEW_MS = 1_000;
/** How long a queued run may wait before somebody is missing, milliseconds. */
const OLD_MS = 30_000;

/** The database, its migrations and clock, and what waits in it. */
export async function checkDatabase(url: string): Promise<Finding[]> {
  const { ok, failed } = about('database', 'DATABASE_URL');
  const store = await openStore({ url, maxConnections: 1 });
  try {
    await store.ready();
    return [ok('reachable, every migration is applied'), await clock(store), ...(await waiting(store))];
  } catch (error) {
    return [failed(textOfError(error))];
  } finally {
    await store.close();
  }
}

/** The queue behind the doorbells. */
export async function checkQueue(url: string): Promise<Finding[]> {
  const { ok, failed } = about('queue', 'QUEUE_URL');
  try {
    await probeQueue(url);
    return [ok('reachable')];
  } catch (error) {
    return [failed(textOfError(error))];
  }
}

async function clock(store: Store): Promise<Finding> {
  const before = Date.now();
  const theirs = await store.now();
  // The answer was made somewhere between question and arrival.
  return clockFinding(Math.round(theirs - (before + Date.now()) / 2));
}

/** Judges by how many milliseconds the database's clock is ahead of this machine's. */
export function clockFinding(aheadMs: number): Finding {
  const { ok, warning, failed } = about('clock', 'the database against this machine');
  const detail = `${Math.abs(aheadMs)} ms ${aheadMs < 0 ? 'behind' : 'ahead'}`;
  const remedy = 'Synchronise the clocks (NTP) of this machine and the database server.';
  if (Math.abs(aheadMs) > SKEW_MS) return failed(detail, remedy);
  return Math.abs(aheadMs) > NOTICEABLE_SKEW_MS ? warning(detail, remedy) : ok(detail);
}

async function waiting(store: Store): Promise<Finding[]> {
  const { queued, pending, expiredLeases, oldestQueuedMs } = await store.runs.counts();
  const leases = about('leases', 'runs that are executed');
  const runs = about('queue', 'runs that wait');
  const runners = 'Start a runner, or see at /readyz of the runners why they take no runs.';
  const seconds = Math.round(oldestQueuedMs / 1_000);
  return [
    expiredLeases > 0
      ? leases.failed(`${expiredLeases} have lost their runner and no other has taken over`, runners)
      : leases.ok('none has expired'),
    queued > 0 && oldestQueuedMs > OLD_MS
      ? runs.failed(`${queued} queued, the oldest for ${seconds} s; ${pending} pending`, runners)
      : runs.ok(`${queued} queued, ${pending} pending`),
  ];
}
