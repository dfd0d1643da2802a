import type { ApprovalCall, ApprovalDecision } from './approval.js';
import type { JsonObject, JsonValue } from './json.js';
import type { Message } from './message.js';
import type { OnBusy, RunStatus, StopReason } from './run.js';
import type { ResultSource, ToolCallState, ToolResult } from './tool-call.js';
import type { Usage } from './usage.js';

/** Payload of the five events that end a run. `message` is safe to show, `by` names the hook or host that ended it. */
interface RunEnded {
  readonly stopReason: StopReason;
  readonly message?: string;
  readonly by?: string;
  readonly usage: Usage;
  readonly turns: number;
}

/** Payload of every ledger event, by type. The closed union: a type that is not here does not exist. */
export interface LedgerPayloads {
  /** Accepted: the first event of a run. `message` is the stored input, after all gates. */
  'run.created': {
    readonly status: RunStatus;
    readonly agent: string;
    readonly message: Message;
    readonly onBusy?: OnBusy;
  };
  /** A runner executes the run for the first time. */
  'run.started': Record<never, never>;
  /** Between two states that are not final, a hand-back and the wait for a person included. */
  'run.state_changed': { readonly from: RunStatus; readonly to: RunStatus };
  /** The model is about to be asked for the `iteration`th time; `tools` are the names it may call. */
  'turn.started': { readonly iteration: number; readonly tools: readonly string[] };
  /** A later attempt goes on with a turn whose reply is stored. */
  'turn.resumed': { readonly iteration: number };
  /** Deltas of the former attempt of this turn count no more. */
  'turn.restarted': { readonly iteration: number; readonly reason: 'attempt' | 'model_retry' };
  /** The model has begun to reply. */
  'assistant.started': Record<never, never>;
  /** A piece of the reply, coalesced: at most 2 KiB or 50 ms of it. Gone for good after `turn.restarted`. */
  'assistant.delta': { readonly text: string };
  /** The whole reply as stored; it counts, whatever the deltas said. `repaired`: text was made well-formed. */
  'assistant.completed': { readonly message: Message; readonly finishReason: string; readonly repaired?: boolean };
  /** The model asks for a tool. Nothing has been checked or executed yet. */
  'tool.call_started': { readonly callId: string; readonly tool: string; readonly arguments: JsonValue };
  /** A person must decide these calls; nothing of the turn executes before. */
  'tool.approval_required': {
    readonly approvalId: string;
    readonly calls: readonly ApprovalCall[];
    readonly supersedes?: string;
    readonly expiresAt: string;
  };
  /** A person has decided some or all calls. `actor` is the key's name, or `host` on expiry. */
  'tool.approval_decided': {
    readonly approvalId: string;
    readonly decisions: readonly ApprovalDecision[];
    readonly actor: string;
  };
  /** An approval is still open, and a good part of its life is over. */
  'tool.approval_reminder': { readonly approvalId: string; readonly expiresAt?: string };
  /** The `n`th execution begins, with the arguments as gated and approved. Stored before the effect. */
  'tool.execution_started': {
    readonly callId: string;
    readonly tool: string;
    readonly n: number;
    readonly arguments: JsonValue;
  };
  /** The `n`th execution failed and another follows; pure and idempotent tools only. */
  'tool.execution_retry': {
    readonly callId: string;
    readonly tool: string;
    readonly n: number;
    readonly error: string;
  };
  /** The end of a call, executed or not: `state` says which, `source` whose result the model sees, `by` the hook. */
  'tool.execution_result': {
    readonly callId: string;
    readonly tool: string;
    readonly state: ToolCallState;
    readonly source: ResultSource;
    readonly result: ToolResult;
    readonly by?: string;
  };
  /** The request was sent and no outcome came back; the call is not repeated. */
  'tool.outcome_unknown': { readonly callId: string; readonly tool: string; readonly error: string };
  /** Tokens of this turn, or of a summary in it that came to nothing, and of the run so far. */
  'turn.usage_recorded': { readonly usage: Usage; readonly total: Usage };
  /**
   * Older messages were summarised by the model: `summary` stands for them from now on, `summarised` of them since the
   * last time; `messages` is how many the model still sees. `usage` is of the summarising call, `total` of the run.
   */
  'context.compacted': {
    readonly messages: number;
    readonly summarised: number;
    readonly summary: string;
    readonly usage: Usage;
    readonly total: Usage;
  };
  /** The turn is over with all its tool calls. */
  'turn.completed': { readonly iteration: number };
  /** The end of a run; exactly one of the five ends is written per run. */
  'run.completed': RunEnded;
  /** The end of a run that could not go on. */
  'run.failed': RunEnded;
  /** The end of a run that was cancelled. */
  'run.cancelled': RunEnded;
  /** The end of a run whose time was over. */
  'run.timed_out': RunEnded;
  /** The end of a run that a policy refused, or that needed an answer from a policy that could not be asked. */
  'run.blocked': RunEnded;
  /** A message for people; the model never sees it. Also outside of runs, then without `runId`. */
  'message.notice': { readonly message: Message; readonly plugin?: string };
  /** An event of a plugin or extension, passed through. */
  'extension.event': { readonly extension: string; readonly name: string; readonly payload: JsonValue };
}

/** Name of a ledger event: what happened, in the past tense. */
export type LedgerEventType = keyof LedgerPayloads;

/** A fact before it is stored. */
export type NewLedgerEvent = {
  readonly [T in LedgerEventType]: {
    readonly eventId: string;
    readonly type: T;
    readonly turnId?: string;
    readonly payload: LedgerPayloads[T];
  };
}[LedgerEventType];

/** A stored fact: what a client sees in one frame of a session's stream. */
export type LedgerEvent = NewLedgerEvent & {
  readonly sessionId: string;
  readonly runId?: string;
  /** The lease under which it was written; absent when no runner wrote it. */
  readonly attempt?: number;
  /** 1, 2, 3 … per session, without a gap. */
  readonly seq: number;
  /** Version of the payload's shape; 1. */
  readonly version: number;
  /** RFC 3339, UTC, database clock. */
  readonly occurredAt: string;
};

/** Every ledger event type. */
export const LEDGER_EVENT_TYPES = [
  'run.created',
  'run.started',
  'run.state_changed',
  'turn.started',
  'turn.resumed',
  'turn.restarted',
  'assistant.started',
  'assistant.delta',
  'assistant.completed',
  'tool.call_started',
  'tool.approval_required',
  'tool.approval_decided',
  'tool.approval_reminder',
  'tool.execution_started',
  'tool.execution_retry',
  'tool.execution_result',
  'tool.outcome_unknown',
  'turn.usage_recorded',
  'context.compacted',
  'turn.completed',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.timed_out',
  'run.blocked',
  'message.notice',
  'extension.event',
] as const satisfies readonly LedgerEventType[];

/** The terminal event type of a state. */
export const TERMINAL_EVENTS = {
  completed: 'run.completed',
  failed: 'run.failed',
  cancelled: 'run.cancelled',
  timed_out: 'run.timed_out',
  blocked: 'run.blocked',
} as const;

/** Free-form metadata of runs and sessions. */
export type Metadata = JsonObject;
