import type { AskingCall, CallSettled, GatedCall, ToolCall, ToolDefinition, ToolResult, Turn } from '@codedock/domain';
import type { Attempt } from './attempt.js';
import type { Bounds } from './bounds.js';

/** The dispatch of one turn's calls. */
export interface Dispatch {
  readonly attempt: Attempt;
  readonly turn: Turn;
  /** Names of the tools that were offered in this turn's model call. */
  readonly offered: ReadonlySet<string>;
  /** Closed when the dispatch is over, however it ends: no call of it goes on alone. */
  readonly bounds: Bounds;
}

/** A call that may run: its final arguments are the gated ones. */
export interface ReadyCall {
  readonly kind: 'ready';
  readonly call: ToolCall;
  readonly tool: ToolDefinition;
  readonly gated: GatedCall;
}

/** Where a call stands after its gates. */
export type CallStanding =
  | { readonly kind: 'settled'; readonly call: ToolCall; readonly result: ToolResult }
  | ReadyCall
  | { readonly kind: 'asks'; readonly asking: AskingCall };

/** Ends a call without an execution. */
export function settle(
  { attempt }: Dispatch,
  call: ToolCall,
  { state, result, source, by }: Omit<CallSettled, 'call'>,
): CallStanding {
  attempt.note(attempt.ports.ledger.callSettled({ call, state, result, source, ...(by === undefined ? {} : { by }) }));
  return { kind: 'settled', call: { ...call, state, result }, result };
}
