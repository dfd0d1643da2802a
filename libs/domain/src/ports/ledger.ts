import type { NewCheckpoint } from '../context-checkpoint.js';
import type { JsonObject, JsonValue } from '../json.js';
import type { Message } from '../message.js';
import type { AskReason, GatedCall, ResultSource, ToolCall, ToolCallState, ToolResult } from '../tool-call.js';
import type { Turn } from '../turn.js';
import type { Usage } from '../usage.js';
import type { GateCall } from './gate-call.js';

/** What `beforeRunStart` settled for the whole run. */
export interface RunStart {
  readonly systemPrompt: string;
  /** Go to every model call; are no messages, appear in no API, log or audit. */
  readonly hidden: readonly Message[];
}

/** A reply about to be stored, with its calls in the state `proposed`. */
export interface TurnReply {
  readonly message: Message;
  readonly calls: readonly ToolCall[];
  readonly usage: Usage;
  readonly finishReason: string;
  /** True when the provider's text held characters that no store accepts and they were replaced. */
  readonly repaired?: boolean;
}

/** Older messages that a summary stands for from now on. */
export interface ContextCompacted {
  readonly checkpoint: NewCheckpoint;
  /** Of the summarising call. */
  readonly usage: Usage;
  /** Messages that the model still sees, the summary among them. */
  readonly remaining: number;
}

/** A call that ends without an execution. */
export interface CallSettled {
  readonly call: ToolCall;
  readonly state: Extract<ToolCallState, 'failed' | 'blocked' | 'skipped' | 'denied'>;
  readonly result: ToolResult;
  readonly source: ResultSource;
  /** The hook or host that settled it. */
  readonly by?: string;
}

/**
 * The facts of one attempt at a run. Every method appends to the session's ledger under the attempt's fence, in the
 * order of the calls; the promise resolves when the fact is committed and rejects with `lease_lost` when this attempt
 * no longer owns the run. Facts that nothing depends on need no await: a later one reports the loss.
 * Records and scratchpad patches of gates opened here are stored with the next fact.
 */
export interface Ledger {
  /** Opens a gate or notification: frozen scratchpad, audit sink, signal. */
  gate(site: { turnId?: string; callId?: string }, signal: AbortSignal): GateCall;

  runStarted(start: RunStart): Promise<void>;
  turnStarted(turn: Turn, tools: readonly string[]): Promise<void>;
  turnResumed(turn: Turn): Promise<void>;
  /** The turn's model call is made anew; its former deltas count no more. */
  turnRestarted(turn: Turn, reason: 'attempt' | 'model_retry'): Promise<void>;
  /** Must be committed before a model call relies on it: a resumed run begins with the checkpoint. */
  contextCompacted(turn: Turn, compacted: ContextCompacted): Promise<void>;
  /** A model call of the turn was paid for although nothing of its reply is stored. */
  usageRecorded(turn: Turn, usage: Usage): Promise<void>;
  assistantStarted(turn: Turn): Promise<void>;
  /** Coalesced: at most one row per 50 ms or 2 KiB. */
  assistantDelta(turn: Turn, text: string): void;
  assistantCompleted(turn: Turn, reply: TurnReply): Promise<void>;

  /** The gate's answer for a call that may run, perhaps after approval. A row before it is an effect. */
  callGated(call: ToolCall, gated: GatedCall): Promise<void>;
  callSettled(settled: CallSettled): Promise<void>;
  /**
   * Inserts the execution `(call, n)` and sets `executing`, if the call's stored seal still equals `gated` – else rejects
   * with `seal_broken`. Must be committed before the tool is touched.
   */
  executionStarted(call: ToolCall, n: number, gated: GatedCall): Promise<void>;
  /** The execution failed and the call will be executed again. */
  executionRetried(call: ToolCall, n: number, error: string): Promise<void>;
  /** Stores the result and the tool message that carries it to the model. */
  executionFinished(call: ToolCall, n: number, result: ToolResult, source: ResultSource): Promise<void>;
  /** The request was sent and no outcome came back; the model is told so in the result. */
  executionUnknown(call: ToolCall, n: number, error: string, result: ToolResult): Promise<void>;

  turnCompleted(turn: Turn): Promise<void>;
  /** `emit` of a small extension. */
  extensionEmitted(extension: string, name: string, payload: JsonValue): Promise<void>;
  /** The extensions' metadata of the run, checkpointed with the next fact. */
  metadataChanged(metadata: JsonObject): void;
}

/** A call that waits for a person. */
export interface AskingCall {
  readonly call: ToolCall;
  readonly gated: GatedCall;
  readonly reasons: readonly AskReason[];
}
