import type { CallContext } from '../host/host.js';
import type { JsonObject, JsonValue } from '../json.js';

/** Something that has happened: a fact of the session's ledger, or an event another plugin emitted. */
export interface LedgerNotice extends CallContext {
  /** Name of the event, e.g. `run.started`. */
  readonly event: string;
  /**
   * Id of the stored event, the same each time it is delivered; empty for an event of another plugin, and where it is told
   * while it is stored.
   */
  readonly eventId: string;
  /** Number of the event in its session; 0 where `eventId` is empty. */
  readonly seq: number;
  readonly payload: JsonObject;
  /** The plugins' shared bag of the run, read-only. */
  readonly context: { get(key: string): JsonValue | undefined };
}
