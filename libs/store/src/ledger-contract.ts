import type {
  ApprovalCall,
  EffectClass,
  GatedCall,
  JsonObject,
  JsonValue,
  LedgerEvent,
  Message,
  NewCheckpoint,
  NewLedgerEvent,
  ResultSource,
  Ring,
  RunEnd,
  RunStart,
  ScratchpadPatch,
  StopReason,
  TerminalStatus,
  ToolCallState,
  ToolResult,
  Usage,
} from '@codedock/domain';
import type { SitedRecord } from './audit-contract.js';

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
