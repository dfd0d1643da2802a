import { type ToolCall, type Turn, toolMessageOf } from '@codedock/domain';
import type { Attempt } from './attempt.js';
import { Bounds } from './bounds.js';
import { confirmCall, gateCall } from './call-gate.js';
import { type CallStanding, type Dispatch, type ReadyCall, settle } from './dispatch.js';
import { LoopExit } from './loop-result.js';
import { executeCall, recoverCall } from './tool-execution.js';
import { deniedResult, failedResult } from './tool-results.js';

/**
 * Dispatches all calls of a turn: every one passes its gates before any is executed, and nothing is executed while one
 * of them asks. Leaves with `waiting_approval` for all asking calls at once; else every call has a result afterwards,
 * and the history holds it.
 */
export async function dispatchCalls(
  attempt: Attempt,
  turn: Turn,
  calls: readonly ToolCall[],
  offered: readonly string[],
): Promise<void> {
  const bounds = new Bounds(attempt.bounds.signal);
  const dispatch: Dispatch = { attempt, turn, offered: new Set(offered), bounds };
  try {
    const standings = await Promise.all(calls.map((call) => standingOf(dispatch, call)));
    leaveIfAsking(turn, standings);
    const settled = await executeAll(dispatch, standings);
    leaveIfAsking(turn, settled);
    remember(attempt, settled);
  } catch (error) {
    bounds.close(error);
    throw error;
  } finally {
    bounds.release();
  }
}

/** Gives the calls that have no result yet a failed one. */
export function failOpenCalls(
  attempt: Attempt,
  turn: Turn,
  calls: readonly ToolCall[],
  text: string,
  by: { readonly source: 'host' | 'hook'; readonly hook?: string },
): void {
  const dispatch: Dispatch = { attempt, turn, offered: new Set(), bounds: attempt.bounds };
  const result = failedResult(text);
  for (const call of calls) {
    if (call.state === 'proposed' || call.state === 'approved') {
      settle(dispatch, call, {
        state: 'failed',
        result,
        source: by.source,
        ...(by.hook === undefined ? {} : { by: by.hook }),
      });
    }
  }
}

/** A stored state goes on where it stopped. */
async function standingOf(
  dispatch: Dispatch,
  call: ToolCall,
): Promise<CallStanding | { kind: 'left'; call: ToolCall }> {
  switch (call.state) {
    case 'proposed':
      return call.gated === undefined ? gateCall(dispatch, call) : confirmCall(dispatch, call);
    case 'approved':
      return confirmCall(dispatch, call);
    case 'awaiting_approval': {
      const { gated } = call;
      return gated === undefined
        ? gateCall(dispatch, call)
        : { kind: 'asks', asking: { call, gated, reasons: gated.reasons } };
    }
    case 'denied': {
      if (call.result !== undefined) return { kind: 'settled', call, result: call.result };
      const expired = call.settledBy === 'host';
      const result = deniedResult(call.denialReason, expired);
      const by = call.settledBy === undefined ? {} : { by: call.settledBy };
      return settle(dispatch, call, { state: 'denied', result, source: expired ? 'host' : 'person', ...by });
    }
    case 'executing':
      return { kind: 'left', call };
    default:
      return { kind: 'settled', call, result: call.result ?? failedResult(`The call ended ${call.state}.`) };
  }
}

type Standing = Awaited<ReturnType<typeof standingOf>>;

function leaveIfAsking(turn: Turn, standings: readonly Standing[]): void {
  const calls = standings.flatMap((standing) => (standing.kind === 'asks' ? [standing.asking] : []));
  if (calls.length > 0) throw new LoopExit({ kind: 'waiting_approval', turn, calls });
}

/** Executes what may run, in the calls' order, at most so many at a time. */
async function executeAll(dispatch: Dispatch, standings: readonly Standing[]): Promise<readonly Standing[]> {
  const results: Standing[] = [...standings];
  const open = standings.flatMap((standing, index) =>
    standing.kind === 'ready' || standing.kind === 'left' ? [{ standing, index }] : [],
  );
  const work = open.values();
  const worker = async () => {
    for (const { standing, index } of work) {
      dispatch.bounds.check();
      results[index] = await outcomeOf(dispatch, standing);
    }
  };
  const width = Math.max(1, dispatch.attempt.snapshot.config.limits.maxParallelTools);
  await Promise.all(Array.from({ length: Math.min(width, open.length) }, worker));
  return results;
}

function outcomeOf(dispatch: Dispatch, standing: ReadyCall | { kind: 'left'; call: ToolCall }): Promise<CallStanding> {
  return standing.kind === 'left' ? recoverCall(dispatch, standing.call) : executeCall(dispatch, standing);
}

/** The results become history in the calls' order; those stored before are there already. */
function remember(attempt: Attempt, settled: readonly Standing[]): void {
  const { snapshot, state } = attempt;
  const known = new Set(state.messages.flatMap(({ content }) => ('callId' in content ? [content.callId] : [])));
  const of = { sessionId: snapshot.sessionId, runId: snapshot.runId, createdAt: attempt.timestamp };
  for (const standing of settled) {
    if (standing.kind !== 'settled' || known.has(standing.call.id)) continue;
    attempt.remember(toolMessageOf(standing.call, standing.result, of));
  }
}
