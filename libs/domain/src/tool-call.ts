import type { JsonObject, JsonValue } from './json.js';

/** What executing a tool twice means. `effectful` (the default) is never repeated. */
export type EffectClass = 'pure' | 'idempotent' | 'effectful';

/** States of a tool call. */
export const TOOL_CALL_STATES = [
  'proposed',
  'failed',
  'blocked',
  'skipped',
  'awaiting_approval',
  'approved',
  'denied',
  'executing',
  'succeeded',
  'unknown',
  'cancelled',
] as const;
/** State of a tool call. `unknown`: it was started and no outcome came back. */
export type ToolCallState = (typeof TOOL_CALL_STATES)[number];

const NEXT: Record<ToolCallState, readonly ToolCallState[]> = {
  proposed: ['failed', 'blocked', 'skipped', 'awaiting_approval', 'executing', 'denied', 'cancelled'],
  awaiting_approval: ['approved', 'denied', 'cancelled'],
  approved: ['executing', 'awaiting_approval', 'blocked', 'skipped', 'failed', 'cancelled'],
  // A repeated execution of a pure or idempotent call is a further row (call, n) under the same state.
  executing: ['executing', 'succeeded', 'failed', 'unknown'],
  // A person resolves an unknown outcome: it happened, it did not, or try again.
  unknown: ['succeeded', 'failed', 'approved'],
  failed: [],
  blocked: [],
  skipped: [],
  denied: [],
  succeeded: [],
  cancelled: [],
};

/** True when a tool call may go from one state to the other. */
export function mayMoveCall(from: ToolCallState, to: ToolCallState): boolean {
  return NEXT[from].includes(to);
}

/** True for the states in which nothing more happens to the call by itself. */
export function isFinalCall(state: ToolCallState): boolean {
  return NEXT[state].length === 0 || state === 'unknown';
}

/** A tool as the registry knows it and the model sees it. */
export interface ToolDefinition {
  /** `[a-zA-Z0-9_-]{1,64}`. */
  readonly name: string;
  /** What the model is told the tool does. */
  readonly description: string;
  /** JSON Schema 2020-12 of the arguments; the root is an object schema. */
  readonly parameters: JsonObject;
  readonly requiresApproval: boolean;
  readonly effect: EffectClass;
  /** Time limit of one execution, milliseconds. */
  readonly timeoutMs: number;
  /** Digest of the canonical schema. */
  readonly schemaDigest: string;
  /** The plugin that registered it; absent for built-in and in-process tools. */
  readonly plugin?: string;
}

/** What a tool call gave. `output` is what the model sees; `error` names what went wrong and where. */
export interface ToolResult {
  readonly success: boolean;
  readonly output: JsonValue;
  readonly error?: string;
}

/** Where a failed result comes from: the tool itself, a hook's decision, a person's denial, or the host that could not do its part. */
export type ResultSource = 'tool' | 'hook' | 'person' | 'host';

/** How one execution ended. `unknown`: the request was sent and no outcome came back. */
export type ToolExecution =
  | { readonly kind: 'result'; readonly result: ToolResult; readonly source: 'tool' | 'host' }
  | { readonly kind: 'unknown'; readonly error: string };

/** A tool call as stored. */
export interface ToolCall {
  readonly id: string;
  readonly turnId: string;
  readonly index: number;
  readonly name: string;
  /** Arguments after the gate's changes. */
  readonly arguments: JsonValue;
  readonly providerCallId?: string;
  readonly state: ToolCallState;
  readonly effect: EffectClass;
  /** Executions so far. */
  readonly executions: number;
  /** Present once the gate has answered with proceed or ask for these arguments. */
  readonly gated?: GatedCall;
  /** Present once the call has a stored result. */
  readonly result?: ToolResult;
  /** Reason a person gave with a denial. */
  readonly denialReason?: string;
  /** Who settled it: a hook, the person who denied or resolved it, or `host` (a denial by expiry too). */
  readonly settledBy?: string;
  /** The newest approval that holds it. */
  readonly approvalId?: string;
  /** What its approver made of the arguments; in the snapshot of a run, for calls that are still to have a result. */
  readonly editedArguments?: JsonValue;
}

/** A gate's answer that may be used again as long as both digests still hold. */
export interface GatedCall {
  /** Seal over tool, schema and final arguments. */
  readonly digest: string;
  /** Digest over the plugins asked for this call, in order. */
  readonly gateVersion: string;
  readonly decision: 'proceed' | 'ask';
  /** Reasons of all hooks that asked, and `tool` when the tool itself requires approval. */
  readonly reasons: readonly AskReason[];
}

/** Why a person is asked, and by whom: a hook's name, or `tool`. */
export interface AskReason {
  readonly by: string;
  readonly reason: string;
}
