import { AppError, type TraceContext } from '@codedock/domain';
import { WaitingError } from 'bullmq';
import { queueBackendOf } from './queue-backend.js';
import { asError, type QueueReporter } from './queue-reporter.js';
import { requireNoEviction } from './redis-policy.js';
import { CONNECT_TIMEOUT_MS, openRunWorker, type RunJob } from './run-queue.js';
import { within } from './within.js';

/**
 * Answers one ring; the job is finished when it settles, whatever it settles with. `signal` aborts only when the
 * worker is closed by force – never because the queue lost a lock.
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
  /** Takes no further job from now on until `resume()`; a job that is just arriving goes back to the queue. */
  pause(): void;
  resume(): void;
  /** Takes no further job, ever; jobs in work continue. */
  stop(): void;
  /** Waits for the jobs in work, then closes. With `force` their signal aborts and nothing is waited for. */
  close(options?: { readonly force?: boolean }): Promise<void>;
}

/**
 * Starts taking jobs.
 * @throws AppError `config_invalid` or `queue_unavailable`, as `createDoorbell`.
 */
export async function createDoorbellWorker(url: string, options: DoorbellWorkerOptions): Promise<DoorbellWorker> {
  if (queueBackendOf(url) === 'redis') await requireNoEviction(url, CONNECT_TIMEOUT_MS);
  const forced = new AbortController();
  let taking = options.paused !== true;

  // Two parameters on purpose: a third makes BullMQ abort running jobs when it loses their locks.
  const answer = async (job: RunJob, token?: string): Promise<void> => {
    if (!taking) {
      await job.moveToWait(token);
      throw new WaitingError();
    }
    await options.onRing(job.data.runId, job.data.trace, forced.signal);
  };
  const worker = openRunWorker(url, options.concurrency, answer);
  const fail = (error: unknown) => options.report?.({ kind: 'queue_error', error: asError(error) });
  worker.on('error', fail);
  worker.on('failed', (_job, error) => fail(error));
  worker.on('lockRenewalFailed', (jobs) => options.report?.({ kind: 'lock_lost', jobs }));
  worker.on('stalled', (job) => options.report?.({ kind: 'redelivered', job }));
  try {
    await within(
      worker.waitUntilReady(),
      CONNECT_TIMEOUT_MS,
      () => new Error(`not ready within ${CONNECT_TIMEOUT_MS} ms`),
    );
  } catch (cause) {
    await worker.close(true);
    throw new AppError(
      'queue_unavailable',
      'The queue cannot be reached: check QUEUE_URL, and that migrations have run.',
      { cause },
    );
  }
  if (options.paused === true) await worker.pause(true);
  worker.run().catch(fail);

  let closed: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;
  const stop = () => {
    if (stopping !== undefined) return;
    taking = false;
    // Waits for the jobs in work; what counts here is that it interrupts the wait for the next one at once.
    stopping = worker.pause(false).catch(fail);
  };
  const close = async (force: boolean): Promise<void> => {
    // Pausing ends with a fresh connection, which closing must find; by force, it is dropped when it comes.
    if (force) stopping?.then(() => worker.disconnect()).catch(() => undefined);
    else await stopping;
    await worker.close(force).catch(fail);
  };
  return {
    stop,
    pause() {
      if (stopping !== undefined || !taking) return;
      taking = false;
      worker.pause(true).catch(fail);
    },
    resume() {
      if (stopping !== undefined || taking) return;
      taking = true;
      worker.resume().catch(fail);
    },
    async close({ force = false } = {}) {
      stop();
      if (force) forced.abort(new Error('the worker was closed by force'));
      closed ??= close(force);
      await closed;
    },
  };
}
