import type { HookRecord } from '../gate-outcome.js';
import type { JsonObject } from '../json.js';
import type { Principal } from '../principal.js';
import type { ScratchpadPatch } from '../scratchpad.js';

/** Where in the product a gate or notification stands. */
export interface GateSite {
  readonly tenantId: string;
  readonly sessionId: string;
  /** Absent at `beforeInput`: no run exists yet. */
  readonly runId?: string;
  readonly turnId?: string;
  readonly callId?: string;
  /** Set where no run exists: ties the audit to the request. */
  readonly requestId?: string;
  readonly attempt?: number;
}

/**
 * One asking of one gate: what a hook gets beside the event. In-process hooks usually look at `signal` only; remote
 * hooks read and write all of it. Whoever opened it stores the records and patches with the gate's outcome.
 */
export interface GateCall {
  readonly site: GateSite;
  readonly principal: Principal;
  /** Aborts on cancel, lease loss or deadline. */
  readonly signal: AbortSignal;
  /** The plugins' shared bag as it was when the gate opened; deep-frozen. */
  readonly scratchpad: JsonObject;
  /** Merges what this gate's plugins set and deleted, when the outcome is stored. */
  merge(patch: ScratchpadPatch): void;
  /** Adds a line to the audit. */
  record(record: HookRecord): void;
  /** Lines recorded so far, in order. */
  readonly records: readonly HookRecord[];
}
