import type { Clock, Doorbell, IdSource, LiveBus } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import type { Store } from '@codedock/store';

/** Something that failed beside a use case and that the database, or the reconciler, makes good. */
export interface RunIncident {
  readonly kind: 'ring_failed' | 'cancel_failed' | 'reconcile_failed';
  readonly runId?: string;
  readonly error: unknown;
}

/** What the use cases of runs work with. */
export interface RunPorts {
  readonly store: Store;
  readonly hooks: Hooks;
  readonly doorbell: Doorbell;
  readonly bus: LiveBus;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** Logged and counted by the app; must not throw. */
  readonly report: (incident: RunIncident) => void;
}
