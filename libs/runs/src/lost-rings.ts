import type { RungRun } from '@codedock/store';
import { ringAll } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** Queued runs looked at in one pass while rings are missing. */
const BATCH = 1_000;
/** And while as many rings wait as runs are queued, in case rings of runs that are over hide a lost one. */
const SAMPLE = 50;
/** Rings asked for at the same time. */
const AT_ONCE = 50;

/**
 * Rings again for queued runs whose ring the queue has lost, and for no other: a long queue costs a look, not a ring for
 * each of its runs. Walks over the queued runs, in each pass from where the former one ended.
 */
export class LostRings {
  private after = 0;

  /** One pass. Rejects with `queue_unavailable` when the queue cannot be asked: it could not be rung either. */
  async ringAgain(ports: Pick<RunPorts, 'store' | 'bus' | 'doorbell' | 'report'>): Promise<void> {
    const { queued, runs } = await ports.store.runs.untaken({ after: this.after, limit: BATCH });
    if (runs.length === 0) {
      this.after = 0;
      return;
    }
    const waiting = await ports.doorbell.waiting();
    const looked = waiting >= queued ? runs.slice(0, SAMPLE) : runs;
    this.after = looked.length < BATCH && looked.length === runs.length ? 0 : (looked.at(-1)?.position ?? 0);
    const lost = waiting === 0 ? looked : await missing(ports, looked);
    await ringAll(ports, await ports.store.runs.ringAgain(lost));
  }
}

async function missing({ doorbell }: Pick<RunPorts, 'doorbell'>, runs: readonly RungRun[]): Promise<RungRun[]> {
  const lost: RungRun[] = [];
  for (let from = 0; from < runs.length; from += AT_ONCE) {
    const some = runs.slice(from, from + AT_ONCE);
    const waits = await Promise.all(some.map((run) => doorbell.waits(run)));
    lost.push(...some.filter((_, index) => waits[index] === false));
  }
  return lost;
}
