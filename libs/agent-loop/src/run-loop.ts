import { isAppError, type RunSnapshot, stopKindOf } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { askOrEnd } from './ask-gate.js';
import { Attempt } from './attempt.js';
import { beginRun } from './begin-run.js';
import { limitBeforeTurn } from './limits.js';
import type { LoopPorts } from './loop-ports.js';
import { ending, LoopExit, type LoopResult } from './loop-result.js';
import { resumeTurn, retryCalls, runTurn, type TurnOutcome } from './turn.js';

/**
 * Runs one attempt at a run until it ends, waits for approval, is handed back or is stopped by its signal (whose reason
 * is a `RunStopped`). Returns at once when the signal aborts, whatever model, tools, hooks and database do, and appends
 * nothing afterwards. Rejects only for failures of the ports that say nothing about the run, such as a lost database.
 */
export async function runLoop(
  snapshot: RunSnapshot,
  hooks: Hooks,
  ports: LoopPorts,
  signal: AbortSignal,
): Promise<LoopResult> {
  const attempt = new Attempt(snapshot, hooks, ports, signal);
  try {
    attempt.bounds.check();
    throw await iterate(attempt);
  } catch (error) {
    return resultOf(attempt, error, signal);
  } finally {
    attempt.bounds.close(new LoopExit({ kind: 'handed_back' }));
  }
}

async function iterate(attempt: Attempt): Promise<LoopExit> {
  const { snapshot, ports } = attempt;
  if (snapshot.start === undefined) await beginRun(attempt);
  for (const turn of snapshot.retriedTurns ?? []) await retryCalls(attempt, turn);
  let outcome: TurnOutcome = isAnswered(snapshot) ? 'answered' : 'tools_called';
  if (snapshot.openTurn !== undefined) outcome = await resumeTurn(attempt, snapshot.openTurn);
  while (outcome === 'tools_called') {
    attempt.bounds.check();
    if (ports.drainRequested()) return new LoopExit({ kind: 'handed_back' });
    const limit = limitBeforeTurn(attempt);
    if (limit !== undefined) return ending(limit.stopReason, limit.message);
    if (attempt.state.iteration > 0) await backEdge(attempt);
    outcome = await runTurn(attempt);
  }
  attempt.bounds.check();
  return new LoopExit({ kind: 'ended', end: { status: 'completed', stopReason: 'completed' } });
}

/** True when a former attempt got as far as the final answer and only the end is missing. */
function isAnswered({ runId, messages }: RunSnapshot): boolean {
  const last = messages.at(-1);
  return last?.runId === runId && last.role === 'assistant' && (last.toolCalls ?? []).length === 0;
}

async function backEdge(attempt: Attempt): Promise<void> {
  const { snapshot, state } = attempt;
  const decision = await askOrEnd(
    attempt,
    'onLoop',
    {
      runId: snapshot.runId,
      sessionId: snapshot.sessionId,
      iteration: state.iteration + 1,
      messages: state.messages,
      usage: state.usage,
    },
    {},
  );
  if (decision?.kind === 'stop') throw ending('stopped_by_hook', decision.reason, decision.by);
}

/** How the attempt left: as it said, by its signal, or because the run is no longer its own. */
function resultOf(attempt: Attempt, error: unknown, signal: AbortSignal): LoopResult {
  if (error instanceof LoopExit) {
    const { result } = error;
    return result.kind === 'ended' ? { ...result, view: attempt.view() } : result;
  }
  const stopped = stopKindOf(signal);
  if (stopped === 'drain') return { kind: 'handed_back' };
  if (stopped !== undefined) return { kind: 'stopped', by: stopped, view: attempt.view() };
  if (isAppError(error, 'lease_lost') || isAppError(error, 'run_ended')) {
    return { kind: 'stopped', by: 'lease_lost', view: attempt.view() };
  }
  throw error;
}
