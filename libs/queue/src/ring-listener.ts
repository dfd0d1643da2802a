import { AppError } from '@codedock/domain';
import { WaitingError } from 'bullmq';
import { asError, type QueueReporter } from './queue-reporter.js';
import { RingGivenBack } from './ring-given-back.js';
import { CLOSE_TIMEOUT_MS, CONNECT_TIMEOUT_MS, openRunWorker, type RunJob } from './run-queue.js';
import { within } from './within.js';

export interface RingListenerOptions {
  readonly concurrency: number;
  /** False: a job that is just arriving goes back to the queue. */
  readonly taking: () => boolean;
  readonly answer: (job: RunJob) => Promise<void>;
  readonly report: QueueReporter;
}

/**
 * One BullMQ worker and its loop, which runs once: a second loop beside what a broken one has left (jobs in work, a
 * wait for the next one) can spin without ever yielding.
 */
export interface RingListener {
  /** Rings being answered. */
  readonly inWork: number;
  /** Rings answered at the same time. */
  concurrency: number;
  /** Runs the loop; resolves when it has ended, with what ended it where that was an error. */
  run(): Promise<Error | undefined>;
  /** Takes no further job, without a hurry; until `resume()`. Only while the loop runs. */
  pause(): void;
  resume(): void;
  /** Takes no further job, ever, and interrupts the wait for the next one at once. */
  stop(): void;
  /** Resolves when no ring is being answered. */
  idle(): Promise<void>;
  /** Waits for the loop, then closes; with `force` nothing is waited for. */
  close(force: boolean): Promise<void>;
}

/**
 * Connects a listener; its loop does not run yet.
 * @throws AppError `queue_unavailable` when the queue does not answer in time.
 */
export async function openRingListener(url: string, options: RingListenerOptions): Promise<RingListener> {
  const answers = new Set<Promise<void>>();
  const giveBack = async (job: RunJob, token: string | undefined): Promise<never> => {
    await job.moveToWait(token);
    throw new WaitingError();
  };
  // Two parameters on purpose: a third makes BullMQ abort running jobs when it loses their locks.
  const take = async (job: RunJob, token?: string): Promise<void> => {
    if (!options.taking()) return await giveBack(job, token);
    const answering = options.answer(job);
    answers.add(answering);
    try {
      await answering;
    } catch (error) {
      if (!(error instanceof RingGivenBack)) throw error;
      return await giveBack(job, token);
    } finally {
      answers.delete(answering);
    }
  };
  const { queue: worker, end } = openRunWorker(url, options.concurrency, take);
  const fail = (error: unknown) => options.report({ kind: 'queue_error', error: asError(error) });
  worker.on('error', fail);
  worker.on('failed', (_job, error) => fail(error));
  worker.on('lockRenewalFailed', (jobs) => options.report({ kind: 'lock_lost', jobs }));
  worker.on('stalled', (job) => options.report({ kind: 'redelivered', job }));
  try {
    await within(
      worker.waitUntilReady(),
      CONNECT_TIMEOUT_MS,
      () => new Error(`not ready within ${CONNECT_TIMEOUT_MS} ms`),
    );
  } catch (cause) {
    await within(worker.close(true), CLOSE_TIMEOUT_MS, () => new Error('not closed in time')).catch(fail);
    end();
    throw new AppError(
      'queue_unavailable',
      'The queue cannot be reached: check QUEUE_URL, and that migrations have run.',
      { cause: asError(cause) },
    );
  }
  const idle = async () => {
    await Promise.allSettled(answers);
  };
  let release = () => {};
  /** Nothing is asked of the queue any more. */
  const over = new Promise<void>((resolve) => {
    release = resolve;
  });
  let running = false;
  let stopping: Promise<void> | undefined;
  let closed: Promise<void> | undefined;
  const letGo = async (force: boolean): Promise<void> => {
    // Pausing ends with a fresh connection, which closing must find; by force, it is dropped when it comes.
    const closing = force ? worker.close(true) : (stopping ?? Promise.resolve()).then(() => worker.close());
    try {
      await within(closing, CLOSE_TIMEOUT_MS, () => new Error('not closed in time'));
    } catch (error) {
      // A queue that is away answers neither; what waits for it must not connect anew.
      fail(error);
      worker.close(true).catch(fail);
    }
    end();
    stopping?.then(end);
    release();
  };
  return {
    get inWork() {
      return answers.size;
    },
    get concurrency() {
      return worker.concurrency;
    },
    set concurrency(concurrency) {
      worker.concurrency = concurrency;
    },
    async run() {
      running = true;
      try {
        // The loop of a queue that is away may never end.
        await Promise.race([worker.run(), over]);
        return undefined;
      } catch (error) {
        return asError(error);
      } finally {
        running = false;
        // A job that still ends must not fetch the next one for a loop that is gone.
        worker.pause(true).catch(fail);
      }
    },
    pause() {
      if (running) worker.pause(true).catch(fail);
    },
    resume() {
      if (running) worker.resume().catch(fail);
    },
    stop() {
      // Waits for the jobs in work; what counts here is that it interrupts the wait for the next one at once.
      if (running) stopping ??= worker.pause(false).catch(fail);
    },
    idle,
    close(force) {
      if (force) return letGo(true);
      closed ??= idle().then(() => letGo(false));
      return closed;
    },
  };
}
