import type { ApprovalCall, ApprovalDecision } from './approval.js';
import type { JsonObject, JsonValue } from './json.js';
import type { Message } from './message.js';
import type { OnBusy, RunStatus, StopReason } from './run.js';
import type { ResultSource, ToolCallState, ToolResult } from './tool-call.js';
import type { Usage } from './usage.js';

interface RunEnded {
  readonly stopReason: StopReason;
  readonly message?: string;
  readonly by?: string;
  readonly usage: Usage;
  readonly turns: number;
}

/** Payload of every ledger event, by type. The closed union: a type that is not here does not exist. */
export interface LedgerPayloads {
  'run.created': {
    readonly status: RunStatus;
    readonly agent: string;
    readonly message: Message;
    readonly onBusy?: OnBusy;
  };
  'run.started': Record<never, never>;
  'run.state_changed': { readonly from: RunStatus; readonly to: RunStatus };
  'turn.started': { readonly iteration: number; readonly tools: readonly string[] };
  'turn.resumed': { readonly iteration: number };
  /** Deltas of the former attempt of this turn count no more. */
  'turn.restarted': { readonly iteration: number; readonly reason: 'attempt' | 'model_retry' };
  'assistant.started': Record<never, never>;
  'assistant.delta': { readonly text: string };
  'assistant.completed': { readonly message: Message; readonly finishReason: string; readonly repaired?: boolean };
  'tool.call_started': { readonly callId: string; readonly tool: string; readonly arguments: JsonValue };
  'tool.approval_required': {
    readonly approvalId: string;
    readonly calls: readonly ApprovalCall[];
    readonly supersedes?: string;
    readonly expiresAt: string;
  };
  'tool.approval_decided': {
    readonly approvalId: string;
    readonly decisions: readonly ApprovalDecision[];
    readonly actor: string;
  };
  'tool.approval_reminder': { readonly approvalId: string };
  'tool.execution_started': {
    readonly callId: string;
    readonly tool: string;
    readonly n: number;
    readonly arguments: JsonValue;
  };
  'tool.execution_retry': {
    readonly callId: string;
    readonly tool: string;
    readonly n: number;
    readonly error: string;
  };
  'tool.execution_result': {
    readonly callId: string;
    readonly tool: string;
    readonly state: ToolCallState;
    readonly source: ResultSource;
    readonly result: ToolResult;
    readonly by?: string;
  };
  'tool.outcome_unknown': { readonly callId: string; readonly tool: string; readonly error: string };
  'turn.usage_recorded': { readonly usage: Usage; readonly total: Usage };
  'context.compacted': { readonly messages: number };
  'turn.completed': { readonly iteration: number };
  'run.completed': RunEnded;
  'run.failed': RunEnded;
  'run.cancelled': RunEnded;
  'run.timed_out': RunEnded;
  'run.blocked': RunEnded;
  'message.notice': { readonly message: Message; readonly plugin?: string };
  'extension.event': { readonly extension: string; readonly name: string; readonly payload: JsonValue };
}

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
