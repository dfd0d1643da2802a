import { setImmediate as afterThis, setTimeout as sleep } from 'node:timers/promises';
import type { TraceContext } from '@codedock/domain';
import { reconnectDelay } from './backoff.js';
import { queueBackendOf } from './queue-backend.js';
import { asError, type QueueReporter } from './queue-reporter.js';
import { requireNoEviction } from './redis/require-no-eviction.js';
import { openRingListener, type RingListener } from './ring-listener.js';
import { CONNECT_TIMEOUT_MS } from './run-queue.js';

/**
 * Answers one ring; the job is finished when it settles, whatever it settles with but `RingGivenBack`. `signal` aborts
 * only when the worker is closed by force – never because the queue lost a lock.
 */
export type RingHandler = (runId: string, trace: TraceContext, signal: AbortSignal) => Promise<void>;

/** How rings are answered; `report` hears of trouble that the worker gets over by itself. */
export interface DoorbellWorkerOptions {
  /** Rings answered at the same time. */
  readonly concurrency: number;
  readonly onRing: RingHandler;
  readonly report?: QueueReporter;
  /** True: takes no jobs before `resume()`. */
  readonly paused?: boolean;
}

/** Listens to the doorbell. */
export interface DoorbellWorker {
  /** Why no jobs are taken although nobody asked for that; undefined while all is well. It mends itself. */
  readonly trouble: string | undefined;
  /** Takes no further job from now on until `resume()`; a job that is just arriving goes back to the queue. */
  pause(): void;
  resume(): void;
  /** Takes no further job, ever; jobs in work continue. */
  stop(): void;
  /** Waits for the jobs in work, then closes. With `force` their signal aborts and nothing is waited for. */
  close(options?: { readonly force?: boolean }): Promise<void>;
}

/** A loop that has run for so long, milliseconds, was no failed try to start one. */
const STEADY_MS = 60_000;

/**
 * Starts taking jobs. A loop that ends without having been asked to is followed by a fresh one.
 * @throws AppError `config_invalid` or `queue_unavailable`, as `createDoorbell`.
 */
export async function createDoorbellWorker(url: string, options: DoorbellWorkerOptions): Promise<DoorbellWorker> {
  if (queueBackendOf(url) === 'redis') await requireNoEviction(url, CONNECT_TIMEOUT_MS);
  const report: QueueReporter = (incident) => options.report?.(incident);
  const forced = new AbortController();
  const stopped = new AbortController();
  /** Listeners whose loop has ended and whose last rings are still being answered. */
  const retired = new Map<RingListener, Promise<void>>();
  let taking = options.paused !== true;
  let trouble: string | undefined;
  let following: Promise<void> | undefined;

  /** What retired listeners still answer counts; one at least, or nothing would be taken while they do. */
  const room = () => {
    const taken = [...retired.keys()].reduce((sum, { inWork }) => sum + inWork, 0);
    return Math.max(1, options.concurrency - taken);
  };
  const open = () =>
    openRingListener(url, {
      concurrency: room(),
      taking: () => taking,
      answer: async ({ data }) => {
        try {
          await options.onRing(data.runId, data.trace, forced.signal);
        } finally {
          if (retired.size > 0) void afterThis().then(widen);
        }
      },
      report,
    });
  let listener: RingListener | undefined = await open();
  const widen = () => {
    if (listener !== undefined) listener.concurrency = room();
  };

  const retire = (ended: RingListener): void => {
    const closed = ended
      .idle()
      // The answer to a job still has to reach the queue.
      .then(() => afterThis())
      .then(() => ended.close(false))
      .then(() => void retired.delete(ended))
      .then(widen);
    retired.set(ended, closed);
  };
  /** Runs a loop as long as one is asked for and hears why it ended, where that was not asked for. */
  const runOnce = async (): Promise<Error | undefined> => {
    const current = listener ?? (await open());
    listener = current;
    if (!taking) return undefined;
    if (trouble !== undefined) report({ kind: 'listening_again' });
    trouble = undefined;
    const error = await current.run();
    listener = undefined;
    retire(current);
    return taking ? (error ?? new Error('the loop ended by itself')) : undefined;
  };
  const follow = async (): Promise<void> => {
    for (let failures = 0; taking; ) {
      const began = performance.now();
      const error = await runOnce().catch(asError);
      if (error === undefined || !taking) continue;
      failures = performance.now() - began > STEADY_MS ? 1 : failures + 1;
      trouble = `no jobs are taken from the queue until it is listened to again: ${error.message}`;
      report({ kind: 'listening_ended', error });
      await sleep(reconnectDelay(failures), undefined, { signal: stopped.signal }).catch(() => undefined);
    }
    // In one go with the last look at `taking`: whoever resumes from now on has to start anew.
    following = undefined;
  };
  const start = () => {
    following ??= follow();
  };

  let closed: Promise<void> | undefined;
  const stop = () => {
    if (stopped.signal.aborted) return;
    taking = false;
    trouble = undefined;
    stopped.abort();
    listener?.stop();
  };
  const close = async (force: boolean): Promise<void> => {
    const follower = following;
    if (force) {
      // One that is just being opened is closed when it is there.
      follower?.then(() => listener?.close(true)).catch(() => undefined);
      await Promise.all([listener, ...retired.keys()].map((each) => each?.close(true)));
      return;
    }
    await listener?.close(false);
    await follower;
    // One that was just being opened.
    await listener?.close(false);
    await Promise.all(retired.values());
  };
  if (taking) start();
  return {
    get trouble() {
      return trouble;
    },
    stop,
    pause() {
      if (stopped.signal.aborted || !taking) return;
      taking = false;
      listener?.pause();
    },
    resume() {
      if (stopped.signal.aborted || taking) return;
      taking = true;
      listener?.resume();
      start();
    },
    async close({ force = false } = {}) {
      stop();
      if (force) forced.abort(new Error('the worker was closed by force'));
      closed ??= close(force);
      await closed;
    },
  };
}
