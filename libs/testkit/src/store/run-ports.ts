import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { CancelPush, LiveBus, Ring, SessionPush } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import type { RunIncident, RunPorts } from '@codedock/runs';
import type { Store } from '@codedock/store';

/** Ports of the use cases of runs on a real store; what goes out is kept in order of sending. */
export interface RecordedPorts extends RunPorts {
  readonly pushes: readonly SessionPush[];
  readonly cancels: readonly CancelPush[];
  readonly rings: readonly Ring[];
  readonly incidents: readonly RunIncident[];
  /** Makes the next rings fail. */
  breakDoorbell(): void;
}

/** In-process doorbell and bus: at most once, and nobody else listens. */
export function recordedPorts(store: Store, hooks: Hooks = {}): RecordedPorts {
  const pushes: SessionPush[] = [];
  const cancels: CancelPush[] = [];
  const rings: Ring[] = [];
  const incidents: RunIncident[] = [];
  const cancelListeners = new Set<(push: CancelPush) => void>();
  let broken = false;
  const bus: LiveBus = {
    publish: (push) => {
      pushes.push(push);
    },
    publishCancel: (push) => {
      cancels.push(push);
      for (const listener of cancelListeners) listener(push);
    },
    subscribe: async () => () => undefined,
    subscribeCancels: async (listener) => {
      cancelListeners.add(listener);
      return () => cancelListeners.delete(listener);
    },
    onReconnected: () => () => undefined,
    close: async () => undefined,
  };
  return {
    store,
    hooks,
    bus,
    doorbell: {
      ring: async (ring) => {
        if (broken) throw new Error('the doorbell is broken');
        rings.push(ring);
      },
      waiting: async () => rings.length,
      waits: async (ring) => rings.some((rung) => rung.runId === ring.runId && rung.doorbell === ring.doorbell),
    },
    clock: {
      now: () => Date.now(),
      sleep: (ms, signal) => delay(ms, undefined, { signal, ref: true }).catch(() => undefined),
    },
    ids: { next: randomUUID },
    report: (incident) => {
      incidents.push(incident);
    },
    pushes,
    cancels,
    rings,
    incidents,
    breakDoorbell: () => {
      broken = true;
    },
  };
}
