import type { ToolGrant } from './approval.js';
import type { ContextCheckpoint } from './context-checkpoint.js';
import type { JsonObject } from './json.js';
import type { Message } from './message.js';
import type { RunStart } from './ports/ledger.js';
import type { Principal } from './principal.js';
import type { RunConfig } from './profile.js';
import type { ToolCall } from './tool-call.js';
import type { Turn } from './turn.js';
import type { Usage } from './usage.js';

/** A turn that a former attempt left open. */
export interface OpenTurn extends Turn {
  /** Absent when the model's reply was never stored. */
  readonly reply?: Message;
  /** The reply's calls in order, with stored states and results. */
  readonly calls: readonly ToolCall[];
  /** Names of the tools offered to the model in this turn. */
  readonly tools: readonly string[];
}

/** Size of a context as its provider counted it. */
export interface MeasuredContext {
  /** The reply that was counted last. */
  readonly messageId: string;
  /** Input and output tokens of that model call. */
  readonly tokens: number;
}

/** Everything a runner needs to begin or go on with a run, read under its lease. */
export interface RunSnapshot {
  readonly runId: string;
  readonly sessionId: string;
  readonly tenantId: string;
  /** Number of this lease; the fence. */
  readonly attempt: number;
  readonly config: RunConfig;
  readonly principal: Principal;
  /** Present once `beforeRunStart` has been answered and checkpointed. */
  readonly start?: RunStart;
  readonly openTurn?: OpenTurn;
  /** Completed turns with only those of their calls that a person wants to be tried again; absent when there are none. */
  readonly retriedTurns?: readonly OpenTurn[];
  /** Completed or open turns so far. */
  readonly turns: number;
  readonly toolCalls: number;
  readonly usage: Usage;
  /**
   * History by (run position, seq) without notices: what a later run stored is not in it, nor what the checkpoint stands
   * for; the run's own input always is.
   */
  readonly messages: readonly Message[];
  /** Stands before `messages`; absent while the history is whole. */
  readonly checkpoint?: ContextCheckpoint;
  /** What the provider counted for the newest reply in `messages`; absent when it is older than the checkpoint. */
  readonly measured?: MeasuredContext;
  readonly scratchpad: JsonObject;
  /** Approvals that reach beyond their call and cover this run; absent when there are none. */
  readonly grants?: readonly ToolGrant[];
  /** Checkpointed metadata of the extensions. */
  readonly metadata: JsonObject;
  readonly cancelRequested: boolean;
  /** Wall time used by former attempts, milliseconds; waiting does not count. */
  readonly elapsedMs: number;
}
