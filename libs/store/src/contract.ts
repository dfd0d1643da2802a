import type {
  AgentProfile,
  ApprovalCall,
  ApprovalDecision,
  ApprovalScope,
  ApprovalStatus,
  EffectClass,
  GatedCall,
  GateSite,
  HookRecord,
  JsonObject,
  JsonValue,
  LedgerEvent,
  Message,
  NewCheckpoint,
  NewLedgerEvent,
  OnBusy,
  Principal,
  ResultSource,
  Ring,
  RunConfig,
  RunEnd,
  RunSnapshot,
  RunStart,
  RunStatus,
  Scope,
  ScratchpadPatch,
  StopReason,
  TerminalStatus,
  ToolCall,
  ToolCallState,
  ToolResult,
  TraceContext,
  Usage,
  WebhookEvent,
} from '@codedock/domain';
import type { AgentEditing } from './agent-contract.js';
import type { MemoryEditing, MemoryEntry, MemoryOwner } from './memory-contract.js';
import type { RetentionStore, SessionDeletionStore } from './retention-contract.js';
import type { SecretStore } from './secret-contract.js';
import type { StreamTokenStore } from './stream-token-contract.js';

// ─── Runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

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

/** Hook records of one gate, with where the gate stood. */
export interface SitedRecord {
  readonly record: HookRecord;
  readonly site: GateSite;
}

/** Completes an idempotency claim in the transaction that creates something. */
export interface IdempotencyCompletion {
  readonly route: string;
  readonly key: string;
  readonly ownerToken: string;
  readonly status: number;
  /**
   * Stored as the response's body, together with what was created: `runs.accept` sets its member `run` to the run's
   * view, `sessions.create` lays the session's members over it.
   */
  readonly body: JsonObject;
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
  /** More than five attempts without progress: this lease is for ending the run as `crash_loop` only. */
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
  /** Takes the lease of a queued run, or of a running one whose lease has expired, and reads all a runner needs. One statement. */
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

// ─── Ledger ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A new or changed tool call. The first change of a call needs `turnId`, `index`, `name`, `arguments`, `effect`. */
export interface CallChange {
  readonly id: string;
  readonly state: ToolCallState;
  readonly turnId?: string;
  readonly index?: number;
  readonly name?: string;
  readonly arguments?: JsonValue;
  readonly providerCallId?: string;
  readonly effect?: EffectClass;
  readonly gated?: GatedCall;
  readonly result?: ToolResult;
  readonly source?: ResultSource;
  readonly by?: string;
  /** With `executing`: the stored seal must equal this one, else the whole batch is refused with seal_broken. */
  readonly expect?: { readonly digest: string; readonly gateVersion: string };
}

export interface TurnChange {
  readonly id: string;
  readonly iteration: number;
  readonly status: 'open' | 'replied' | 'completed';
  /** Names offered to the model. */
  readonly tools?: readonly string[];
  readonly usage?: Usage;
  readonly finishReason?: string;
  /** Added to the turn's count of model calls made anew. */
  readonly restarts?: number;
}

/** `executing` inserts the row `(call, n)` and is refused when it exists; the other states change it. */
export interface ExecutionChange {
  readonly callId: string;
  readonly n: number;
  readonly state: 'executing' | 'succeeded' | 'failed' | 'unknown';
  readonly error?: string;
}

/** What plugins of one gate set and deleted. */
export interface ScratchpadChange {
  readonly patch: ScratchpadPatch;
  /** The copy the gate was opened with. A key that has another value by now is a conflict: the later wins, recorded. */
  readonly sent?: JsonObject;
  /** Named in the record of a conflict or of an update dropped for its size. */
  readonly gate: string;
}

/** Rows that change with the facts that report them. */
export interface Changes {
  /** `eventId` names the event of the same batch whose `seq` becomes the message's `eventSeq`. */
  readonly messages?: readonly { readonly message: Message; readonly eventId: string }[];
  readonly turns?: readonly TurnChange[];
  readonly calls?: readonly CallChange[];
  readonly executions?: readonly ExecutionChange[];
  readonly records?: readonly SitedRecord[];
  /** Stands for every message of the session before `firstKept`; stored after the messages of the batch. */
  readonly checkpoint?: NewCheckpoint;
  readonly run?: {
    readonly start?: RunStart;
    /** Replaces the extensions' metadata. */
    readonly metadata?: JsonObject;
    /** Added. */
    readonly usage?: Usage;
    /** Set: turns so far. */
    readonly turns?: number;
    /** Added. */
    readonly toolCalls?: number;
    /** A turn or tool result was committed: the count of attempts without progress starts anew. */
    readonly progress?: boolean;
    /** Merged in order; an update that would exceed 8 KiB is dropped and recorded. */
    readonly scratchpad?: readonly ScratchpadChange[];
  };
}

/** Facts of one session, stored in one statement, in order. */
export interface AppendBatch {
  readonly tenantId: string;
  readonly sessionId: string;
  /** With a token: a runner's, fenced. Without: the run must not have ended. Absent: a fact of the session alone. */
  readonly run?: { readonly runId: string; readonly token?: number };
  readonly events: readonly NewLedgerEvent[];
  readonly changes?: Changes;
}

export interface Appended {
  /** 0 when the batch held no events. */
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly events: readonly LedgerEvent[];
  /** The bag after the batch's patches; absent when it held none. */
  readonly scratchpad?: JsonObject;
}

/**
 * The last facts of a run, or of its way to an approval. The terminal event, `tool.approval_required`,
 * `tool.outcome_unknown` of executing calls and `run.state_changed` are added; the batch must not hold them.
 */
export type LeaveBatch = Omit<AppendBatch, 'run'> & {
  /** Only the holder of the lease ends or parks a run: its runner, or whoever fenced it. */
  readonly run: { readonly runId: string; readonly token: number };
  readonly to:
    | { readonly kind: 'end'; readonly end: RunEnd }
    | {
        readonly kind: 'waiting_approval';
        readonly approval: {
          readonly id: string;
          readonly turnId: string;
          readonly calls: readonly ApprovalCall[];
          /** RFC 3339. */
          readonly expiresAt: string;
          /** The approval this one replaces. */
          readonly supersedes?: string;
        };
      };
};

export interface Left {
  /** False: the run had ended before; `end` says how, and nothing was written. */
  readonly applied: boolean;
  /** All events of this transaction that belong to this run's session, in order. */
  readonly events: readonly LedgerEvent[];
  /** Events of other sessions whose run was admitted. */
  readonly otherEvents: readonly LedgerEvent[];
  readonly rings: readonly Ring[];
  /** The end that counts, when the run has ended. */
  readonly end?: { readonly status: TerminalStatus; readonly stopReason: StopReason };
}

export interface LedgerStore {
  /** Throws lease_lost (a token that is no longer the run's), run_ended (no token, run over), seal_broken, not_found, invalid_request (ill-formed text). */
  append(batch: AppendBatch): Promise<Appended>;
  /** Events with `seq > after`, ascending; of one run when `runId` is given. */
  since(input: {
    tenantId: string;
    sessionId: string;
    after: number;
    limit: number;
    runId?: string;
  }): Promise<LedgerEvent[]>;
  /** Events of a session up to this one are not kept any more; 0 when all are. */
  prunedSeq(tenantId: string, sessionId: string): Promise<number>;
  /** Newest seq per session, for a gateway's attached sessions; missing and deleted sessions are absent. */
  lastSeqs(sessionIds: readonly string[]): Promise<Map<string, number>>;
}

// ─── Sessions, messages, notices ─────────────────────────────────────────────────────────────────────────────────────

export interface Session {
  readonly id: string;
  readonly title?: string;
  /** End user on whose behalf the session is held. */
  readonly user?: string;
  readonly metadata: JsonObject;
  readonly status: 'open' | 'archived';
  readonly lastSeq: number;
  /** Events up to this one are not kept any more; 0 when all are. */
  readonly prunedSeq: number;
  /** Tokens of completions that belong to no run: those of plugins asked about an input. */
  readonly usage: Usage;
  readonly createdAt: string;
  readonly archivedAt?: string;
}

export interface SessionStore {
  create(
    input: {
      tenantId: string;
      id: string;
      user?: string;
      title?: string;
      metadata: JsonObject;
      createdBy: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<Session>;
  /** Throws not_found. */
  get(tenantId: string, sessionId: string): Promise<Session>;
  list(input: { tenantId: string; limit: number; before?: string }): Promise<Session[]>;
  /** Revokes what was granted in it. Idempotent. Throws session_busy while a run is not over. */
  archive(tenantId: string, sessionId: string): Promise<Session>;
  /** The tenant a session belongs to; undefined when there is no such session. */
  tenantOf(sessionId: string): Promise<string | undefined>;
  /** Names set for the session; undefined when none were: the profile's and all plugins' tools. Throws not_found. */
  activeTools(tenantId: string, sessionId: string): Promise<readonly string[] | undefined>;
  /** Replaces the names, audited. Throws not_found. */
  setActiveTools(input: {
    tenantId: string;
    sessionId: string;
    names: readonly string[];
    actor: string;
  }): Promise<void>;
}

export interface MessageStore {
  /** Ascending by eventSeq; `after` is an eventSeq. */
  list(input: { tenantId: string; sessionId: string; after?: number; limit: number }): Promise<Message[]>;
}

export interface NoticeStore {
  /** A system message of kind notice and its event; with the run's id while the run lives. */
  append(input: {
    tenantId: string;
    sessionId: string;
    runId?: string;
    text: string;
    plugin?: string;
    messageId: string;
    eventId: string;
  }): Promise<Appended>;
}

// ─── Approvals and tool calls ────────────────────────────────────────────────────────────────────────────────────────

export interface ApprovalCallView extends ApprovalCall {
  readonly decision?: 'approve' | 'deny';
  /** Of an approval. */
  readonly scope?: ApprovalScope;
  /** What the approver made of the arguments; executed instead of them. */
  readonly editedArguments?: JsonValue;
  readonly editedDigest?: string;
  readonly reason?: string;
  /** Name of the API key, or `host` for an expiry. */
  readonly decidedBy?: string;
  readonly decidedAt?: string;
}

export interface ApprovalView {
  readonly id: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly status: ApprovalStatus;
  readonly calls: readonly ApprovalCallView[];
  readonly supersedes?: string;
  /** The approval that took its place because what was approved had changed. */
  readonly supersededBy?: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly remindedAt?: string;
  readonly decidedAt?: string;
}

/** A decision with what its caller has judged: edited arguments with their seal, a wider scope with the schema it covers. */
export type SealedDecision = ApprovalDecision & { readonly digest?: string; readonly schemaDigest?: string };

export interface DecideApproval {
  readonly tenantId: string;
  readonly approvalId: string;
  /** Who decides: the API key's id and name. */
  readonly actor: { readonly id: string; readonly name: string };
  readonly decisions: readonly SealedDecision[];
  readonly eventIds: { readonly decided: string; readonly stateChanged: string };
}

export interface DecidedApproval {
  readonly approval: ApprovalView;
  /** Present when this decision was the last one and queued the run. */
  readonly ring?: Ring;
  /** Empty when the same decision had been made before. */
  readonly events: readonly LedgerEvent[];
}

/** An approval that reaches beyond its call. */
export interface ApprovalGrant {
  readonly id: string;
  readonly sessionId: string;
  /** Present with the scope `run`. */
  readonly runId?: string;
  readonly approvalId: string;
  readonly callId: string;
  readonly tool: string;
  readonly scope: 'run' | 'session';
  /** Name of the API key. */
  readonly grantedBy: string;
  readonly createdAt: string;
  /** Set when the session was archived. */
  readonly revokedAt?: string;
}

export interface ApprovalStore {
  /** Throws not_found. */
  get(tenantId: string, approvalId: string): Promise<ApprovalView>;
  list(input: {
    tenantId: string;
    status?: ApprovalStatus;
    sessionId?: string;
    runId?: string;
    limit: number;
    before?: string;
  }): Promise<ApprovalView[]>;
  /** Whole decision in one transaction. Throws not_found, forbidden (creator rule), approval_decided, invalid_request. */
  decide(input: DecideApproval): Promise<DecidedApproval>;
  /** Denies what is open in an approval past its expiry; the run resumes. Undefined when there is nothing to expire. */
  expire(tenantId: string, approvalId: string): Promise<DecidedApproval | undefined>;
  /** Open approvals of whose life this share (0–1) is over and of which nobody was reminded; at most 500. */
  dueReminders(share: number): Promise<readonly { readonly tenantId: string; readonly approvalId: string }[]>;
  /** Stores the reminder, once; empty when there is nothing to remind of (any more). */
  remind(tenantId: string, approvalId: string): Promise<readonly LedgerEvent[]>;
  /** What was granted in a session, oldest first. */
  grants(tenantId: string, sessionId: string): Promise<readonly ApprovalGrant[]>;
}

/** A person's word on a call whose outcome is unknown. */
export interface ResolveCall {
  readonly tenantId: string;
  readonly callId: string;
  readonly outcome: 'happened' | 'did_not' | 'retry';
  /** `succeeded`, `failed`, or – to be tried again – `approved`. */
  readonly state: 'succeeded' | 'failed' | 'approved';
  /** The call's result; absent with `approved`. */
  readonly result?: ToolResult;
  /** What the model is told from now on; absent with `approved`. */
  readonly output?: JsonValue;
  /** Told in the event of a retry. */
  readonly reason: string;
  /** For the audit. */
  readonly note?: string;
  readonly actor: { readonly id: string; readonly name: string };
  readonly eventId: string;
}

export interface ToolCallStore {
  /** Throws not_found. */
  get(tenantId: string, callId: string): Promise<ToolCall & { readonly runId: string; readonly sessionId: string }>;
  list(tenantId: string, runId: string): Promise<ToolCall[]>;
  /**
   * Resolves an `unknown` call: state, result, what the model is told, event and audit in one transaction. The same word
   * again changes nothing and gives no event. Throws not_found, conflict (not unknown, or a retry while a runner has the run),
   * run_ended (a retry after the run's end).
   */
  resolve(input: ResolveCall): Promise<readonly LedgerEvent[]>;
}

// ─── Webhooks ────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly description?: string;
  readonly events: readonly WebhookEvent[];
  readonly status: 'enabled' | 'disabled';
  readonly createdAt: string;
  readonly lastSuccessAt?: string;
  readonly lastFailureAt?: string;
  readonly disabledAt?: string;
  readonly disabledReason?: string;
}

/** One event for one webhook. */
export interface WebhookDelivery {
  readonly id: string;
  readonly eventId: string;
  readonly sessionId: string;
  readonly seq: number;
  readonly type: WebhookEvent;
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly attempts: number;
  /** Status of the last answer. */
  readonly responseStatus?: number;
  /** Why the last attempt failed. */
  readonly error?: string;
  readonly createdAt: string;
  /** While pending. */
  readonly nextAt?: string;
  readonly settledAt?: string;
}

/** A delivery taken for one attempt. */
export interface TakenDelivery {
  readonly id: string;
  readonly tenantId: string;
  readonly webhookId: string;
  /** 1, 2, 3 … */
  readonly attempt: number;
  readonly url: string;
  readonly secret: string;
  /** Absent when retention has taken it. */
  readonly event?: LedgerEvent;
}

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

export interface WebhookStore {
  /** The webhook is told of events from now on. `secret` is kept to sign with and never read back. */
  create(
    input: {
      tenantId: string;
      id: string;
      url: string;
      description?: string;
      events: readonly WebhookEvent[];
      secret: string;
      createdBy: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<Webhook>;
  /** Throws not_found. */
  get(tenantId: string, webhookId: string): Promise<Webhook>;
  /** Oldest first. */
  list(tenantId: string): Promise<Webhook[]>;
  /** With its deliveries. Throws not_found. */
  delete(tenantId: string, webhookId: string): Promise<void>;
  /** Newest first; `before` is the id of the last one of the former page. */
  deliveries(input: {
    tenantId: string;
    webhookId: string;
    limit: number;
    before?: string;
  }): Promise<WebhookDelivery[]>;
  /** Makes deliveries of what was committed since the last time; returns how many. */
  fanOut(): Promise<number>;
  /** Takes due deliveries for one attempt each; one that is not settled within `holdMs` is due again. */
  take(input: {
    limit: number;
    perWebhook: number;
    holdMs: number;
    except: readonly string[];
  }): Promise<readonly TakenDelivery[]>;
  /** Without `againMs` a failed delivery is given up. Returns why the webhook was disabled, if it was. */
  settle(input: {
    id: string;
    ok: boolean;
    /** True disables the webhook at once. */
    gone: boolean;
    status?: number;
    error?: string;
    againMs?: number;
  }): Promise<{ readonly disabled?: string }>;
  /** Deletes settled deliveries older than this, at most `limit`; returns how many. */
  forget(olderThanMs: number, limit: number): Promise<number>;
}

// ─── Audit and trace ─────────────────────────────────────────────────────────────────────────────────────────────────

export interface StoredRecord extends HookRecord {
  readonly id: string;
  readonly runId?: string;
  readonly turnId?: string;
  readonly callId?: string;
  readonly requestId?: string;
  readonly attempt?: number;
  readonly occurredAt: string;
}

export interface AdminAct {
  readonly id: string;
  readonly occurredAt: string;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly detail: JsonObject;
}

export interface AuditStore {
  /** For gates without a run, and for refused input. */
  insert(records: readonly SitedRecord[]): Promise<void>;
  byRun(input: { tenantId: string; runId: string; after?: string; limit: number }): Promise<StoredRecord[]>;
  bySession(input: { tenantId: string; sessionId: string; after?: string; limit: number }): Promise<StoredRecord[]>;
  /** Newest first; `before` is the id of the last one of the former page. */
  acts(input: {
    tenantId: string;
    limit: number;
    before?: string;
    action?: string;
    target?: string;
  }): Promise<AdminAct[]>;
  /** An admin act, or an event of a plugin's life. */
  admin(act: { tenantId?: string; actor: string; action: string; target: string; detail: JsonObject }): Promise<void>;
}

/** Everything of a run that a waterfall is drawn from. */
export interface RunTrace {
  readonly run: RunView;
  readonly turns: readonly {
    readonly id: string;
    readonly iteration: number;
    readonly status: string;
    readonly usage: Usage;
    readonly startedAt: string;
    readonly completedAt?: string;
  }[];
  readonly calls: readonly ToolCall[];
  readonly executions: readonly {
    readonly callId: string;
    readonly n: number;
    readonly state: string;
    readonly startedAt: string;
    readonly endedAt?: string;
  }[];
  /** When the model was asked and had answered, by the ledger, in order. */
  readonly marks: readonly {
    readonly type: 'turn.started' | 'turn.resumed' | 'turn.restarted' | 'assistant.completed';
    readonly turnId: string;
    /** Of `turn.restarted`. */
    readonly reason?: string;
    readonly occurredAt: string;
  }[];
  /** In order; `occurredAt` is when they were stored. */
  readonly records: readonly StoredRecord[];
}

// ─── Memory, idempotency ─────────────────────────────────────────────────────────────────────────────────────────────

export interface MemoryStore {
  get(owner: MemoryOwner, name: string): Promise<MemoryEntry | undefined>;
  upsert(owner: MemoryOwner, name: string, text: string): Promise<MemoryEntry>;
  /** Entries whose name or text contains the query, ignoring case, newest first. */
  search(owner: MemoryOwner, query: string, limit: number): Promise<MemoryEntry[]>;
}

export interface StoredResponse {
  readonly status: number;
  readonly body: JsonValue;
}

export type Claim =
  | { readonly kind: 'claimed' }
  | { readonly kind: 'in_progress'; readonly retryAfterMs: number }
  | { readonly kind: 'replay'; readonly response: StoredResponse }
  | { readonly kind: 'mismatch' };

export interface IdempotencyStore {
  /** Claims a key for `ttlMs`; an expired claim, or an expired response, is taken over. */
  claim(input: {
    tenantId: string;
    route: string;
    key: string;
    bodyDigest: string;
    ownerToken: string;
    ttlMs: number;
  }): Promise<Claim>;
  /** Frees a claim that created nothing. */
  release(input: { tenantId: string; route: string; key: string; ownerToken: string }): Promise<void>;
  /** Stores a response for 24 h, where nothing else is written (a handled input). Throws idempotency_in_progress when the claim was lost. */
  complete(input: {
    tenantId: string;
    route: string;
    key: string;
    ownerToken: string;
    response: StoredResponse;
  }): Promise<void>;
}

// ─── Tenants, keys, agents, plugins ──────────────────────────────────────────────────────────────────────────────────

export interface Tenant {
  readonly id: string;
  readonly name: string;
  /** Absent = no cap. */
  readonly maxConcurrentRuns?: number;
  /** Requests that each gateway answers a second; absent = the installation's default. */
  readonly requestsPerSecond?: number;
}

export interface TenantStore {
  /** The tenant of that name, created when missing. */
  ensure(input: { id: string; name: string; maxConcurrentRuns?: number }): Promise<Tenant>;
  get(tenantId: string): Promise<Tenant>;
  findByName(name: string): Promise<Tenant | undefined>;
  list(): Promise<Tenant[]>;
  /** Changes what is named; null removes a limit. Throws not_found. */
  setLimits(
    tenantId: string,
    limits: { maxConcurrentRuns?: number | null; requestsPerSecond?: number | null },
  ): Promise<Tenant>;
}

export interface ApiKey {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: string;
  readonly expiresAt?: string;
  readonly rotatedAt?: string;
  /** Until then the secret from before the last rotation is good too; only while it is. */
  readonly formerUntil?: string;
  readonly revokedAt?: string;
}

/** A live key, and what its tenant may do. */
export interface AuthenticKey extends ApiKey {
  readonly tenantName: string;
  /** Requests that each gateway answers the tenant a second; absent = the installation's default. */
  readonly requestsPerSecond?: number;
}

export interface KeyStore {
  /** `hash` is the hex digest of the key; the key itself is never stored. Audited. Throws conflict when the tenant has a live key of that name. */
  create(
    input: {
      id: string;
      tenantId: string;
      name: string;
      hash: string;
      scopes: readonly Scope[];
      expiresAt?: string;
      createdBy?: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<ApiKey>;
  /**
   * Gives the key another secret; the former one is good for `graceMs` more, and no other. Audited. Throws not_found,
   * conflict (revoked).
   */
  rotate(input: {
    tenantId: string;
    keyId: string;
    hash: string;
    graceMs: number;
    expiresAt?: string;
    actor: string;
  }): Promise<ApiKey>;
  list(tenantId: string): Promise<ApiKey[]>;
  /** Idempotent. Throws not_found. */
  revoke(tenantId: string, keyId: string, actor: string): Promise<ApiKey>;
  /** The live key of a hash; undefined when unknown, expired or revoked. */
  authenticate(hash: string): Promise<AuthenticKey | undefined>;
}

export interface AgentStore extends AgentEditing {
  /** A tenant's own profiles and the installation's, by name. */
  list(tenantId: string): Promise<AgentProfile[]>;
  /** The tenant's own, else the installation's; undefined when there is none. */
  get(tenantId: string, name: string): Promise<AgentProfile | undefined>;
  /** Makes the installation's profiles equal to a file's. */
  upsertFromFile(profiles: readonly AgentProfile[]): Promise<void>;
}

/** What the installation wants of its plugins. */
export interface DesiredPlugins {
  readonly epoch: number;
  readonly disabled: readonly string[];
}

export interface PluginStore {
  desired(): Promise<DesiredPlugins>;
  /** Persistent, audited, raises the epoch; idempotent (no raise when nothing changes). */
  disable(input: { plugin: string; actor: string; tenantId: string; reason?: string }): Promise<DesiredPlugins>;
  enable(input: { plugin: string; actor: string; tenantId: string; reason?: string }): Promise<DesiredPlugins>;
  /** Called by a deployment: migration job and start command. */
  raiseEpoch(actor: string): Promise<DesiredPlugins>;
  /** Copy of the newest snapshot (ports, subscribers, failure policies) under an epoch; an older epoch never replaces a newer. */
  saveSnapshot(epoch: number, snapshot: JsonObject): Promise<void>;
  loadSnapshot(): Promise<{ epoch: number; snapshot: JsonObject } | undefined>;
}

/** Whose value a key has: the tenant's own, or the installation's for tenants without one. */
export type ValueScope = 'tenant' | 'global';

/** Which value is meant. */
export interface PluginKey {
  readonly tenantId: string;
  /** Folder name of the plugin. */
  readonly plugin: string;
  readonly key: string;
}

/** A change of a value: of the tenant's own, or with `global` of the installation's. */
export interface PluginValueChange extends PluginKey {
  readonly global?: boolean;
  /** Who changes it, for the audit of that tenant. */
  readonly actor: string;
}

/** What is shown of a value, and all that is ever shown of a secret. */
export interface PluginValueView {
  readonly key: string;
  readonly scope: ValueScope;
  readonly updatedBy: string;
  readonly updatedAt: string;
}

/** An encrypted secret. What was encrypted with it: the tenant it is stored for, the plugin and the key. */
export interface SealedSecret {
  /** Names the encryption key. */
  readonly keyId: string;
  readonly bytes: Uint8Array;
  /** The tenant it is stored for: the asking one, or the installation. */
  readonly owner: string;
}

/** Settings and secrets of plugins. A tenant's own value lies over the installation's. Every change is audited with it. */
export interface PluginValueStore {
  /** Undefined when there is none; the value may be JSON null. */
  setting(of: PluginKey): Promise<{ readonly value: JsonValue } | undefined>;
  setSetting(change: PluginValueChange & { readonly value: JsonValue }): Promise<void>;
  /** False when there was none. */
  removeSetting(change: PluginValueChange): Promise<boolean>;
  /** By key; both scopes where both have one. */
  settings(of: Omit<PluginKey, 'key'>): Promise<readonly (PluginValueView & { readonly value: JsonValue })[]>;
  secret(of: PluginKey): Promise<SealedSecret | undefined>;
  setSecret(change: PluginValueChange & { readonly sealed: Omit<SealedSecret, 'owner'> }): Promise<void>;
  removeSecret(change: PluginValueChange): Promise<boolean>;
  secrets(of: Omit<PluginKey, 'key'>): Promise<readonly PluginValueView[]>;
  /** The tenant that global values are stored for. */
  readonly globalOwner: string;
}

// ─── Store ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface StoreOptions {
  readonly url: string;
  /** Beside a pooler: a direct URL for session-level locks. Default: `url`. */
  readonly directUrl?: string;
  /** Connections of the shared pool; 1–100, default 10. */
  readonly maxConnections?: number;
  /** Longest time one statement may take, milliseconds; default 30,000. A server that has vanished keeps nobody longer. */
  readonly statementTimeoutMs?: number;
  /** Told about connections that broke while idle. */
  readonly onConnectionError?: (error: Error) => void;
}

/** A session-level lock held on its own connection. */
export interface Leadership {
  /** False once the connection, and with it the lock, is gone. */
  readonly held: boolean;
  release(): Promise<void>;
}

/** Everything in PostgreSQL. Throws store_unavailable when the database cannot be reached, invalid_request for ill-formed text. */
export interface Store {
  readonly runs: RunStore;
  readonly ledger: LedgerStore;
  readonly sessions: SessionStore;
  readonly sessionDeletion: SessionDeletionStore;
  readonly retention: RetentionStore;
  readonly streamTokens: StreamTokenStore;
  readonly messages: MessageStore;
  readonly notices: NoticeStore;
  readonly approvals: ApprovalStore;
  readonly toolCalls: ToolCallStore;
  readonly webhooks: WebhookStore;
  readonly audit: AuditStore;
  readonly memory: MemoryStore & MemoryEditing;
  readonly idempotency: IdempotencyStore;
  readonly tenants: TenantStore;
  readonly keys: KeyStore;
  readonly agents: AgentStore;
  readonly plugins: PluginStore;
  readonly pluginValues: PluginValueStore;
  readonly pluginDeliveries: PluginDeliveryStore;
  readonly secrets: SecretStore;
  /** Gate waterfall of a run. Throws not_found. */
  /** The database's clock, milliseconds since the epoch. */
  now(): Promise<number>;
  trace(tenantId: string, runId: string): Promise<RunTrace>;
  /** Tries to become leader for a name; undefined when another process is. */
  lead(name: string): Promise<Leadership | undefined>;
  /** Resolves when the database answers and its migrations are those of this build; else throws store_unavailable. */
  ready(): Promise<void>;
  close(): Promise<void>;
}
