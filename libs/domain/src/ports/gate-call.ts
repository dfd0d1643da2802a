import type { HookRecord } from '../gate-outcome.js';
import type { JsonObject, JsonValue } from '../json.js';
import type { Message } from '../message.js';
import type { Principal } from '../principal.js';
import type { ScratchpadPatch } from '../scratchpad.js';
import type { Usage } from '../usage.js';

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

/** What the loop shows in-process hooks of a run at one gate. A snapshot, but for the metadata. */
export interface LoopView {
  readonly run: {
    readonly id: string;
    readonly sessionId: string;
    readonly tenantId: string;
    readonly attempt: number;
  };
  /** Absent before the first turn and between turns. */
  readonly turn?: { readonly id: string; readonly iteration: number };
  /** The current or coming turn's number; 0 before the first. */
  readonly iteration: number;
  readonly messages: readonly Message[];
  readonly usage: Usage;
  /** The run's metadata as it is now. */
  readonly metadata: JsonObject;
  /** Replaces the run's metadata; checkpointed with the next fact. */
  setMetadata(metadata: JsonObject): void;
  /** Appends an event of an extension to the ledger; not awaited, a lost lease is reported by the loop. */
  emit(extension: string, name: string, payload: JsonValue): void;
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
  /** Present inside the loop: what in-process hooks may look at. Never sent to a plugin. */
  readonly loop?: LoopView;
}
