import type {
  JsonObject,
  LedgerEvent,
  Message,
  OnBusy,
  Principal,
  Ring,
  RunConfig,
  RunSnapshot,
  RunStart,
  RunStatus,
  StopReason,
  TraceContext,
  Usage,
} from '@codedock/domain';
import type { SitedRecord } from './audit-contract.js';
import type { IdempotencyCompletion } from './idempotency-contract.js';
import type { LeaveBatch, Left } from './ledger-contract.js';

/** A run as the API shows it. */
export interface RunView {
  readonly id: string;
  readonly sessionId: string;
  readonly status: RunStatus;
  readonly stopReason?: StopReason;
  /** Why it ended, safe to show. */
  readonly message?: string;
  /** The hook or host that ended it. */
  readonly by?: string;
  readonly agent: string;
  readonly mode?: string;
  /** Leases so far. */
  readonly attempt: number;
  readonly usage: Usage;
  readonly turns: number;
  readonly toolCalls: number;
  /** The caller's metadata, as accepted. */
  readonly metadata: JsonObject;
  /** The open approval of a run in `waiting_approval`. */
  readonly approvalId?: string;
  readonly cancelRequested: boolean;
  /** Id of the API key that created it. */
  readonly createdBy: string;
  /** RFC 3339, UTC, database clock; as all times here. */
  readonly createdAt: string;
  readonly startedAt?: string;
  readonly endedAt?: string;
  /** Place in the order of acceptance; only while pending. */
  readonly position?: number;
  /** `seq` of its `run.created`. */
  readonly firstSeq: number;
  /** `seq` of its terminal event once it has ended, else the session's newest. */
  readonly lastSeq: number;
}

/** Input that passed the gate and becomes a run. */
export interface AcceptRun {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly runId: string;
  /** The user's message; `eventSeq` and `createdAt` are set when stored. */
  readonly message: Message;
  readonly config: RunConfig;
  readonly principal: Principal;
  readonly onBusy: OnBusy;
  /** Id of the API key. */
  readonly createdBy: string;
  readonly metadata: JsonObject;
  /** As `beforeInput` left it. */
  readonly scratchpad: JsonObject;
  /** Audit of `beforeInput`; stored with the run's id and the request's. */
  readonly records: readonly SitedRecord[];
  readonly requestId: string;
  readonly eventId: string;
  readonly idempotency?: IdempotencyCompletion;
  readonly trace: TraceContext;
  /** Absent: any number may wait. */
  readonly limits?: PendingLimits;
}

/** How many runs may be pending; a run that would be one more is refused as rate_limited. */
export interface PendingLimits {
  readonly pendingPerSession: number;
  readonly pendingPerTenant: number;
}

export interface AcceptedRun {
  readonly run: RunView;
  /** Present when the run is queued. */
  readonly ring?: Ring;
  readonly events: readonly LedgerEvent[];
  /** The run whose cancel flag this input set. */
  readonly interrupted?: string;
}

/** What a doorbell leads to. `nothing`: a live lease, a terminal or a missing run; the doorbell is done. */
export type TakenLease =
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'leased';
      readonly snapshot: RunSnapshot;
      readonly events: readonly LedgerEvent[];
      readonly trace: TraceContext;
      /** Time since it was queued, milliseconds; null for a run taken over from a runner whose lease expired. */
      readonly queuedMs: number | null;
    }
  /** Five attempts in a row ended without progress: this lease, the sixth, is for ending the run as `crash_loop` only. */
  | {
      readonly kind: 'crash_loop';
      readonly snapshot: RunSnapshot;
      readonly events: readonly LedgerEvent[];
      readonly trace: TraceContext;
    };

export interface Heartbeat {
  /** False: this attempt no longer owns the run. */
  readonly held: boolean;
  readonly cancelRequested: boolean;
}

/** What `onRunEnd` is told with. */
export interface EndingRun {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly status: RunStatus;
  readonly attempt: number;
  readonly principal: Principal;
  readonly scratchpad: JsonObject;
  /** Checkpointed metadata of the extensions. */
  readonly metadata: JsonObject;
  /** `interrupted` when another input asked for it. */
  readonly cancelReason?: 'cancelled' | 'interrupted';
}

/** The lease of a run that has not ended, taken by force. */
export interface Fenced extends EndingRun {
  readonly token: number;
  /** Ids of the calls that were executing; `leave` makes them `unknown`. */
  readonly executing: readonly string[];
}

/** Runs that need someone, found by the reconciler. */
export interface DueRuns {
  /** Running runs with an expired lease; their doorbells are raised. */
  readonly rings: readonly Ring[];
  /** Runs with a cancel flag older than two seconds that have not ended. */
  readonly cancels: readonly { readonly tenantId: string; readonly runId: string }[];
  /** Open approvals past their expiry. */
  readonly expiredApprovals: readonly { readonly tenantId: string; readonly approvalId: string }[];
  /** Tenants with pending runs, or whose `in_flight` differs from what is counted. */
  readonly tenants: readonly string[];
}

/** A queued run and the ring it waits for. */
export interface RungRun {
  readonly runId: string;
  readonly doorbell: number;
}

export interface UntakenRuns {
  /** Queued runs in all. */
  readonly queued: number;
  /** By position. */
  readonly runs: readonly (RungRun & { readonly position: number })[];
}

export interface Admitted {
  readonly rings: readonly Ring[];
  readonly events: readonly LedgerEvent[];
}

/** What a run works with, ended or not. */
export interface RunWork {
  readonly runId: string;
  readonly config: RunConfig;
  readonly principal: Principal;
  /** So far, completions of plugins included. */
  readonly usage: Usage;
  /** Present once `beforeRunStart` has been answered, until the run ends. */
  readonly start?: RunStart;
}

export interface RunStore {
  /**
   * One transaction: message, run (queued, or pending when the session is busy or the tenant full), `run.created`,
   * audit. Throws session_busy, session_archived, not_found, rate_limited (too many are pending),
   * idempotency_in_progress (the claim was lost).
   */
  accept(input: AcceptRun): Promise<AcceptedRun>;
  /**
   * Takes the lease of a queued run, or of a running one whose lease has expired, and reads all a runner needs. One
   * statement; another one for calls that were approved and have no result yet.
   */
  takeLease(runId: string, ttlMs: number): Promise<TakenLease>;
  heartbeat(runId: string, token: number, ttlMs: number): Promise<Heartbeat>;
  /** `running → queued` with a raised doorbell; not an attempt without progress. Undefined: the lease was no longer held. */
  handBack(runId: string, token: number): Promise<{ ring: Ring; events: readonly LedgerEvent[] } | undefined>;
  /**
   * Ends a run or parks it for approval, with its last facts, and admits who comes next. Throws lease_lost when the
   * token is no longer the run's; a run that has ended already is no error (`applied: false`).
   */
  leave(batch: LeaveBatch): Promise<Left>;
  /** Sets the cancel flag (kept when set already). Throws not_found. */
  requestCancel(input: { tenantId: string; runId: string; actor: string }): Promise<RunView>;
  /**
   * Takes the lease (token + 1, live for 15 s) whoever holds it, so that the caller may end the run. Undefined when it
   * has ended or is gone, and when a runner has it (`running`) unless `running` is true.
   */
  fence(runId: string, options: { running: boolean }): Promise<Fenced | undefined>;
  /** Undefined when the run is gone. */
  ending(runId: string): Promise<EndingRun | undefined>;
  /** Throws not_found, also for another tenant's run. */
  get(tenantId: string, runId: string): Promise<RunView>;
  /** What a run, or without an id the session's newest, works with; undefined when there is none. */
  work(input: { tenantId: string; sessionId: string; runId?: string }): Promise<RunWork | undefined>;
  /** Adds tokens used on behalf of a run; to its session's when there is no run or it has ended. */
  addUsage(input: { tenantId: string; sessionId: string; runId?: string; usage: Usage }): Promise<void>;
  /** Newest first; `before` is the id of the last run of the former page. */
  list(input: {
    tenantId: string;
    sessionId?: string;
    status?: RunStatus;
    limit: number;
    before?: string;
  }): Promise<RunView[]>;
  due(): Promise<DueRuns>;
  /** Queued runs behind a position that nobody has taken for 5 s after they were rung; nothing is changed. */
  untaken(input: { after: number; limit: number }): Promise<UntakenRuns>;
  /** Raises the doorbells of queued runs whose rings are lost; one that was taken or rung meanwhile is left out. */
  ringAgain(lost: readonly RungRun[]): Promise<readonly Ring[]>;
  /** Recounts a tenant's `in_flight` and admits pending runs while slots are free. */
  admit(tenantId: string): Promise<Admitted>;
  /** Queued runs over all tenants. */
  queued(): Promise<number>;
  /** Counts for metrics, over all tenants. */
  counts(): Promise<{ queued: number; pending: number; expiredLeases: number; oldestQueuedMs: number }>;
}
