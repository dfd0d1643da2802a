import { type LedgerEventType, type LiveBus, TERMINAL_EVENTS } from '@codedock/domain';
import { metrics } from './metrics.js';

const STATUS_OF: ReadonlyMap<LedgerEventType, string> = new Map(
  Object.entries(TERMINAL_EVENTS).map(([status, type]) => [type, status]),
);

/** The bus of a process that ends runs: each run whose end is published is counted by its end state. */
export function countedEnds(bus: LiveBus): LiveBus {
  for (const status of STATUS_OF.values()) metrics.runsEnded.add(0, { status });
  return {
    publish(push) {
      bus.publish(push);
      for (const { type } of push.events ?? []) {
        const status = STATUS_OF.get(type);
        if (status !== undefined) metrics.runsEnded.add(1, { status });
      }
    },
    publishCancel: (push) => bus.publishCancel(push),
    subscribe: (sessionId, onPush) => bus.subscribe(sessionId, onPush),
    subscribeCancels: (onCancel) => bus.subscribeCancels(onCancel),
    onReconnected: (listener) => bus.onReconnected(listener),
    close: () => bus.close(),
  };
}
