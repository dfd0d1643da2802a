export { createLiveBus, type LiveBusOptions } from './bus/create-live-bus.js';
export { createDoorbell, type DoorbellConnection, type DoorbellOptions } from './doorbell.js';
export {
  createDoorbellWorker,
  type DoorbellWorker,
  type DoorbellWorkerOptions,
  type RingHandler,
} from './doorbell-worker.js';
export { probeQueue } from './probe-queue.js';
export { type QueueBackend, queueBackendOf } from './queue-backend.js';
export type { QueueIncident, QueueReporter } from './queue-reporter.js';
export { prepareQueueSchema } from './queue-schema.js';
export { RingGivenBack } from './ring-given-back.js';
