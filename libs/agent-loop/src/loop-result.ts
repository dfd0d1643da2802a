import {
  type AskingCall,
  type LoopView,
  type RunEnd,
  runEnd,
  type StopKind,
  type StopReason,
  type Turn,
  wellFormedText,
} from '@codedock/domain';

/**
 * How an attempt left the loop. The facts it appended may still be on their way: whatever the caller appends next goes
 * behind them. `view` is what `onRunEnd` may show to in-process hooks.
 */
export type LoopResult =
  | { readonly kind: 'ended'; readonly end: RunEnd; readonly view?: LoopView }
  /** One approval for all asking calls of the turn; the run resumes when it is decided. */
  | { readonly kind: 'waiting_approval'; readonly turn: Turn; readonly calls: readonly AskingCall[] }
  /** Given away for a drain: the run goes back to the queue. */
  | { readonly kind: 'handed_back' }
  /** By its signal, or because the lease is lost: the caller ends the run – or, after a lost lease, leaves it alone. */
  | { readonly kind: 'stopped'; readonly by: StopKind; readonly view?: LoopView };

/** Leaves the loop from wherever it is. */
export class LoopExit extends Error {
  readonly result: LoopResult;
  constructor(result: LoopResult) {
    super(`the loop is left: ${result.kind}`);
    this.name = 'LoopExit';
    this.result = result;
  }
}

/** The exit of a run that ends with this stop reason. */
export function ending(stopReason: StopReason, message: string, by?: string): LoopExit {
  return new LoopExit({
    kind: 'ended',
    end: runEnd(stopReason, { message: wellFormedText(message), ...(by === undefined ? {} : { by }) }),
  });
}
