import type { JsonValue, LedgerEvent, ToolCall, ToolResult } from '@codedock/domain';

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

/** A tool call with where and when it belongs. */
export type PlacedToolCall = ToolCall & {
  readonly runId: string;
  readonly sessionId: string;
  readonly createdAt: string;
};

export interface ToolCallStore {
  /** Throws not_found. */
  get(tenantId: string, callId: string): Promise<PlacedToolCall>;
  /** Calls of unknown outcome of all sessions, newest first; `before` is the id of the last call of the former page. */
  unknown(input: {
    tenantId: string;
    sessionId?: string;
    runId?: string;
    limit: number;
    before?: string;
  }): Promise<PlacedToolCall[]>;
  list(tenantId: string, runId: string): Promise<ToolCall[]>;
  /**
   * Resolves an `unknown` call: state, result, what the model is told, event and audit in one transaction. The same word
   * again changes nothing and gives no event. Throws not_found, forbidden (a retry by the creator of a run whose profile
   * does not let him approve its calls), conflict (not unknown, or a retry while a runner has the run), run_ended (a
   * retry after the run's end).
   */
  resolve(input: ResolveCall): Promise<readonly LedgerEvent[]>;
}
