import type { Effect } from '../effects/effect-sink.js';

/** A run as its row says. */
export interface RunRow {
  readonly id: string;
  readonly tenantId: string;
  readonly sessionId: string;
  readonly status: string;
  readonly leaseToken: number;
  readonly leaseUntil: string | null;
  readonly cancelReason: string | null;
  readonly requestId: string;
  readonly position: number;
  readonly firstSeq: number;
  readonly endedSeq: number | null;
  /** Names of tools its frozen configuration lists. */
  readonly tools: readonly string[];
}

/** A stored fact. */
export interface EventRow {
  readonly sessionId: string;
  readonly tenantId: string;
  readonly runId: string | null;
  readonly turnId: string | null;
  readonly seq: number;
  readonly eventId: string;
  readonly attempt: number | null;
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** A tool call. */
export interface CallRow {
  readonly id: string;
  readonly runId: string;
  readonly sessionId: string;
  readonly name: string;
  readonly arguments: unknown;
  readonly effect: string;
  readonly state: string;
  readonly digest: string | null;
  readonly gateDecision: string | null;
  readonly executionCount: number;
}

/** One execution of a call. */
export interface ExecutionRow {
  readonly callId: string;
  readonly n: number;
  readonly attempt: number;
  readonly state: string;
}

/** One call of an approval, with what was decided. */
export interface DecisionRow {
  readonly callId: string;
  readonly approvalId: string;
  readonly digest: string;
  readonly editedDigest: string | null;
  readonly decision: string | null;
}

/** What became of one question to a hook. */
export interface AuditRow {
  readonly id: number;
  readonly sessionId: string;
  readonly tenantId: string;
  readonly runId: string | null;
  readonly callId: string | null;
  readonly requestId: string | null;
  readonly attempt: number | null;
  readonly gate: string;
  readonly hook: string;
  readonly outcome: string;
}

/** A session. */
export interface SessionRow {
  readonly id: string;
  readonly tenantId: string;
  readonly lastSeq: number;
}

/** One model call's offer of tools. */
export interface TurnRow {
  readonly id: string;
  readonly runId: string;
  readonly tools: readonly string[];
}

/** What one client saw of a session over all its connections, in order of arrival. */
export interface Recording {
  readonly sessionId: string;
  /** The tenant whose key the client used. */
  readonly tenantId: string;
  readonly frames: readonly { readonly seq: number; readonly eventId: string; readonly type: string }[];
  /** False when the client left on purpose before the end: what is missing at the end is no gap then. */
  readonly whole: boolean;
}

/** What was asked of the API under an idempotency key, and every answer. */
export interface KeyedRequest {
  readonly tenantId: string;
  readonly key: string;
  readonly body: string;
  /** Id of the run each answer named. */
  readonly runIds: readonly string[];
}

/** What may be asked of a plugin. */
export interface ChainedPlugin {
  readonly name: string;
  /** Gates, by the hooks' names, e.g. `beforeToolCall`. */
  readonly gates: readonly string[];
}

/** Everything that is known about what a system did. All invariants are judged from this and nothing else. */
export interface History {
  readonly sessions: readonly SessionRow[];
  readonly runs: readonly RunRow[];
  readonly events: readonly EventRow[];
  readonly turns: readonly TurnRow[];
  readonly calls: readonly CallRow[];
  readonly executions: readonly ExecutionRow[];
  readonly decisions: readonly DecisionRow[];
  readonly audit: readonly AuditRow[];
  readonly effects: readonly Effect[];
  readonly recordings: readonly Recording[];
  readonly requests: readonly KeyedRequest[];
  /** In the order in which they are asked; empty = there is no plugin. */
  readonly chain: readonly ChainedPlugin[];
  /** Calls that a person wanted tried again: they may act once more per wish. */
  readonly retried: ReadonlyMap<string, number>;
  /** Ids of accepted runs, as the clients were told. */
  readonly accepted: readonly string[];
  /** Output of every process, by its name. */
  readonly logs: ReadonlyMap<string, string>;
  /** Secrets that must be in no log, event or answer. */
  readonly secrets: ReadonlyMap<string, string>;
  /** What the case started and was still there after it: processes, folders, sockets. */
  readonly leftovers: readonly string[];
}
