import { AppError, type Doorbell, type Ring } from '@codedock/domain';
import { queueBackendOf } from './queue-backend.js';
import { asError, type QueueReporter } from './queue-reporter.js';
import { requireNoEviction } from './redis/require-no-eviction.js';
import { CLOSE_TIMEOUT_MS, CONNECT_TIMEOUT_MS, openRunQueue } from './run-queue.js';
import { within } from './within.js';

/** BullMQ's range; 0 would overtake every prioritised job. */
const LOWEST_PRIORITY = 2_097_151;
const RING_TIMEOUT_MS = 1_000;
const WAITING: ReadonlySet<string> = new Set(['waiting', 'prioritized', 'paused', 'delayed']);

const jobIdOf = ({ runId, doorbell }: Pick<Ring, 'runId' | 'doorbell'>) => `${runId}-${doorbell}`;

/** `report` hears of trouble that the connection gets over by itself. */
export interface DoorbellOptions {
  readonly report?: QueueReporter;
}

/** A doorbell with its connection. */
export interface DoorbellConnection extends Doorbell {
  /** Closes the connection; safe to call twice. */
  close(): Promise<void>;
}

/**
 * Connects to the queue that rings runners.
 * @throws AppError `config_invalid` (wrong URL, a Redis that evicts) or `queue_unavailable` (not reachable within 5 s,
 * schema not migrated).
 */
export async function createDoorbell(url: string, options: DoorbellOptions = {}): Promise<DoorbellConnection> {
  if (queueBackendOf(url) === 'redis') await requireNoEviction(url, CONNECT_TIMEOUT_MS);
  const { queue, end } = openRunQueue(url);
  const fail = (error: unknown) => options.report?.({ kind: 'queue_error', error: asError(error) });
  queue.on('error', fail);
  const unavailable = (cause: unknown) =>
    new AppError('queue_unavailable', 'The queue cannot be reached: check QUEUE_URL, and that migrations have run.', {
      cause: asError(cause),
    });
  let closed: Promise<void> | undefined;
  const close = () => {
    // A queue that is away lets go of nothing by itself.
    closed ??= within(queue.close(), CLOSE_TIMEOUT_MS, () => new Error('not closed in time'))
      .catch(fail)
      .then(end);
    return closed;
  };
  try {
    await within(
      queue.waitUntilReady(),
      CONNECT_TIMEOUT_MS,
      () => new Error(`not ready within ${CONNECT_TIMEOUT_MS} ms`),
    );
  } catch (error) {
    await close();
    throw unavailable(error);
  }
  const answered = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await within(work, RING_TIMEOUT_MS, () => new Error(`no answer within ${RING_TIMEOUT_MS} ms`));
    } catch (cause) {
      throw unavailable(cause);
    }
  };
  return {
    close,
    waiting: () => answered(queue.getJobCountByTypes('waiting', 'prioritized', 'delayed')),
    waits: async (ring) => WAITING.has(await answered(queue.getJobState(jobIdOf(ring)))),
    async ring(ring: Ring) {
      const added = queue.add(
        'ring',
        { runId: ring.runId, trace: ring.trace },
        {
          jobId: jobIdOf(ring),
          priority: Math.min(Math.max(Math.trunc(ring.priority), 1), LOWEST_PRIORITY),
          removeOnComplete: true,
          removeOnFail: true,
        },
      );
      await answered(added);
    },
  };
}
