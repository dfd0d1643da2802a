import type { LedgerEvent, Principal } from '@codedock/domain';

/** A committed event as a plugin with durable delivery is given it. */
export type DeliverableEvent = LedgerEvent & {
  /** Who the run it is about was started for; of the session where there is no run. */
  readonly principal: Principal;
};

/** Events of one session, in order, leased to one taker. */
export interface DeliveryBatch {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly lease: string;
  /** Takes of this session in a row that brought nothing further, this one included. */
  readonly attempt: number;
  /** What is delivered when all events are; they may be none when retention took them. */
  readonly throughSeq: number;
  readonly events: readonly DeliverableEvent[];
}

/** What waits for a plugin with durable delivery. */
export interface DeliveryState {
  readonly plugin: string;
  readonly waitingSessions: number;
  /** Age of the oldest event that waits, milliseconds; absent = none waits. */
  readonly lagMs?: number;
  /** Of the session that has waited longest. */
  readonly error?: string;
  /** The most takes in a row that brought nothing further, over all sessions. */
  readonly attempts?: number;
}

/**
 * Events for plugins with durable delivery: each plugin gets every event of the types it subscribes to at least once and
 * per session in order, from the first `take` for it on. Never `assistant.delta`.
 */
export interface PluginDeliveryStore {
  /**
   * Takes what is due of one session; undefined = nothing is. Who does not settle within `holdMs` has lost it. At most
   * `limit` events, and no more than `maxBytes` of payload after the first.
   */
  take(input: {
    plugin: string;
    events: readonly string[];
    holdMs: number;
    limit: number;
    maxBytes: number;
  }): Promise<DeliveryBatch | undefined>;
  /** Everything up to `deliveredSeq` is delivered; with an error the rest is due later. False: the lease was lost, nothing is stored. */
  settle(input: {
    plugin: string;
    sessionId: string;
    lease: string;
    deliveredSeq: number;
    error?: string;
  }): Promise<boolean>;
  /** By plugin name. */
  states(): Promise<readonly DeliveryState[]>;
  /** Forgets plugins that were not taken for since that many milliseconds; audited. Returns their names. */
  forget(unaskedMs: number): Promise<readonly string[]>;
}
