import type { Logger } from '@codedock/platform';
import type { QueueReporter } from '@codedock/queue';

/** Logs what happens to queue and bus; none of it changes what happens to a run. */
export function queueReporter(logger: Logger): QueueReporter {
  return (incident) => {
    switch (incident.kind) {
      case 'lock_lost':
        return logger.warn({ jobs: incident.jobs }, 'the queue lost the locks of jobs in work; their leases decide');
      case 'redelivered':
        return logger.info({ job: incident.job }, 'the queue delivers a job again');
      case 'queue_error':
        return logger.warn({ err: incident.error }, 'the queue met a failure');
      case 'listening_ended':
        return logger.error(
          { err: incident.error },
          'no jobs are taken from the queue: listening to it ended, and begins anew',
        );
      case 'listening_again':
        return logger.info('jobs are taken from the queue again');
      case 'bus_error':
        return logger.warn({ err: incident.error }, 'the live bus met a failure');
      case 'bus_reconnected':
        return logger.info('the live bus is back');
    }
  };
}
