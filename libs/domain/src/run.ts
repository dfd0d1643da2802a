/** States of a run. */
export const RUN_STATUSES = [
  'pending',
  'queued',
  'running',
  'waiting_approval',
  'completed',
  'failed',
  'cancelled',
  'timed_out',
  'blocked',
] as const;
/** State of a run. */
export type RunStatus = (typeof RUN_STATUSES)[number];

/** The states a run ends in. */
export type TerminalStatus = 'completed' | 'failed' | 'cancelled' | 'timed_out' | 'blocked';

/** Why a run ended, by the state it ended in. */
export const STOP_REASONS = {
  completed: ['completed', 'stopped_by_hook'],
  failed: ['model_error', 'tool_error', 'max_turns', 'max_tool_calls', 'budget_exceeded', 'crash_loop', 'hook_error'],
  cancelled: ['cancelled', 'interrupted'],
  timed_out: ['timeout'],
  blocked: ['blocked_by_hook', 'aborted_by_hook', 'gate_timeout', 'gate_unavailable'],
} as const satisfies Record<TerminalStatus, readonly string[]>;
/** Why a run ended. */
export type StopReason = (typeof STOP_REASONS)[TerminalStatus][number];

const NEXT: Record<RunStatus, readonly RunStatus[]> = {
  pending: ['queued', 'cancelled', 'failed', 'timed_out', 'blocked'],
  queued: ['running', 'cancelled', 'failed', 'timed_out', 'blocked'],
  running: ['queued', 'waiting_approval', 'completed', 'failed', 'cancelled', 'timed_out', 'blocked'],
  waiting_approval: ['queued', 'cancelled', 'failed', 'timed_out', 'blocked'],
  completed: [],
  failed: [],
  cancelled: [],
  timed_out: [],
  blocked: [],
};

/** True when a run may go from one state to the other. `running → queued` is a hand-back. */
export function mayTransition(from: RunStatus, to: RunStatus): boolean {
  return NEXT[from].includes(to);
}

/** True for the states a run never leaves. */
export function isTerminal(status: RunStatus): status is TerminalStatus {
  return NEXT[status].length === 0;
}

/** True while a run occupies its session: at most one such run exists per session. */
export function isActive(status: RunStatus): boolean {
  return status === 'queued' || status === 'running' || status === 'waiting_approval';
}

/** The state a stop reason belongs to. */
export function statusOf(reason: StopReason): TerminalStatus {
  for (const [status, reasons] of Object.entries(STOP_REASONS)) {
    if ((reasons as readonly string[]).includes(reason)) return status as TerminalStatus;
  }
  throw new RangeError(`no run state has the stop reason ${reason}`);
}

/** How a run ended. `message` is safe to show; `by` names the hook or host that caused it, when one did. */
export interface RunEnd {
  readonly status: TerminalStatus;
  readonly stopReason: StopReason;
  readonly message?: string;
  readonly by?: string;
}

/** A run's end for a stop reason. */
export function runEnd(stopReason: StopReason, detail: { message?: string; by?: string } = {}): RunEnd {
  return { status: statusOf(stopReason), stopReason, ...detail };
}

/** What a session does with new input while a run is active. */
export type OnBusy = 'reject' | 'enqueue' | 'interrupt';
