import {
  type GatedCall,
  isAppError,
  jsonEqual,
  type ResultSource,
  type ToolCall,
  type ToolDefinition,
  type ToolExecution,
  type ToolResult,
  wellFormedText,
} from '@codedock/domain';
import { overlaidResult, recordBrokenHook } from '@codedock/hooks';
import { askGate, openGate, tell } from './ask-gate.js';
import { callDecision, confirmCall, fail, gateCall, seal } from './call-gate.js';
import type { CallStanding, Dispatch, ReadyCall } from './dispatch.js';
import { failedResult, repairedResult, unknownResult, WITHHELD_RESULT } from './tool-results.js';

// A call whose policies change between every question and its execution is not asked for ever.
const QUESTIONS = 3;

/**
 * Executes a call that may run, after one more look at what it was gated for: the seal and the policies that would be
 * asked now. The execution is committed before the tool is touched. The call comes out with a result, or asking.
 */
export async function executeCall(dispatch: Dispatch, ready: ReadyCall): Promise<CallStanding> {
  let standing: CallStanding = ready;
  for (let question = 0; question < QUESTIONS; question += 1) {
    standing = await confirmCall(dispatch, standing.call);
    if (standing.kind !== 'ready') return standing;
    const { call, gated } = standing;
    if (await started(dispatch, call, call.executions + 1, gated)) return execute(dispatch, standing);
    standing = await gateCall(dispatch, call);
    if (standing.kind !== 'ready') return standing;
  }
  return fail(
    dispatch,
    standing.call,
    'Not executed: what the policies decided about this call changed again and again.',
  );
}

/** False when the stored seal is not the one the call was gated for. */
async function started({ attempt, bounds }: Dispatch, call: ToolCall, n: number, gated: GatedCall): Promise<boolean> {
  try {
    await attempt.commit(attempt.ports.ledger.executionStarted(call, n, gated), bounds);
    return true;
  } catch (error) {
    if (isAppError(error, 'seal_broken')) return false;
    throw error;
  }
}

/**
 * Executions of a call whose first one, number `call.executions + 1`, is committed. Before each further one the call is
 * held against the policies that would be asked now.
 */
async function execute(dispatch: Dispatch, first: ReadyCall): Promise<CallStanding> {
  const { attempt } = dispatch;
  const { ledger } = attempt.ports;
  let ready = first;
  for (let n = first.call.executions + 1; ; n += 1) {
    const { call, tool } = ready;
    const outcome = await executeOnce(dispatch, call, tool, n);
    if (!repeats(dispatch, call, tool, outcome, n)) return finished(dispatch, call, n, outcome);
    const error = outcome.kind === 'unknown' ? outcome.error : (outcome.result.error ?? 'the tool failed');
    attempt.note(ledger.executionRetried(call, n, wellFormedText(error)));
    await backOff(dispatch, n);
    const left: ToolCall = { ...call, state: 'executing', executions: n };
    const again = await askedAgain(dispatch, left, outcome.kind === 'unknown' ? 'Without an outcome' : 'Failed');
    if (again.kind !== 'ready') return finished(dispatch, call, n, again);
    // A tool that is effectful by now, or a seal that is another: what came out last is what there is.
    if (again.tool.effect === 'effectful') return finished(dispatch, call, n, outcome);
    if (!(await started(dispatch, again.call, n + 1, again.gated))) return finished(dispatch, call, n, outcome);
    ready = again;
  }
}

type Outcome =
  | { readonly kind: 'result'; readonly result: ToolResult; readonly source: Exclude<ResultSource, 'person'> }
  | { readonly kind: 'unknown'; readonly error: string };

async function executeOnce(dispatch: Dispatch, call: ToolCall, tool: ToolDefinition, n: number): Promise<Outcome> {
  const { attempt, turn, bounds } = dispatch;
  const { snapshot, ports } = attempt;
  const shown = { id: call.id, name: call.name, arguments: call.arguments };
  const place = { turnId: turn.id, callId: call.id };
  tell(
    attempt,
    'onToolExecutionStart',
    { runId: snapshot.runId, sessionId: snapshot.sessionId, turnId: turn.id, call: shown, n },
    place,
  );
  const invocation = {
    tool,
    callId: call.id,
    arguments: call.arguments,
    n,
    idempotencyKey: call.id,
    tenantId: snapshot.tenantId,
    sessionId: snapshot.sessionId,
    runId: snapshot.runId,
    turnId: turn.id,
    principal: snapshot.principal,
  };
  let execution: ToolExecution;
  try {
    execution = await bounds.race(ports.tools.execute(invocation, bounds.signal));
  } catch (error) {
    bounds.check();
    ports.report?.(error, 'tool');
    // The port never rejects; where it does all the same, nobody knows whether the request went out.
    return { kind: 'unknown', error: 'the execution broke off' };
  }
  if (execution.kind === 'unknown') return execution;
  return afterExecution(dispatch, call, n, repairedResult(execution.result), execution.source);
}

/** The result through `afterToolCall`. A hook that breaks leaves it as it was; one that could not be asked withholds it. */
async function afterExecution(
  dispatch: Dispatch,
  call: ToolCall,
  n: number,
  result: ToolResult,
  source: 'tool' | 'host',
): Promise<Outcome> {
  const { attempt, turn, bounds } = dispatch;
  const event = { call: { id: call.id, name: call.name, arguments: call.arguments }, result, n };
  const place = { turnId: turn.id, callId: call.id };
  try {
    const reply = await askGate(attempt, 'afterToolCall', event, place, bounds);
    if (reply === undefined) return { kind: 'result', result, source };
    if (reply.kind === 'could_not_ask') return { kind: 'result', result: WITHHELD_RESULT, source: 'host' };
    return { kind: 'result', result: repairedResult(overlaidResult(result, reply)), source };
  } catch (error) {
    bounds.check();
    recordBrokenHook(openGate(attempt, place, bounds.signal), 'afterToolCall', error);
    return { kind: 'result', result, source };
  }
}

/** Only pure and idempotent calls are repeated, and never for a failure of the host's. */
function repeats({ attempt }: Dispatch, call: ToolCall, tool: ToolDefinition, outcome: Outcome, n: number): boolean {
  if (call.effect === 'effectful' || tool.effect === 'effectful') return false;
  if (n >= attempt.snapshot.config.retry.maxAttempts) return false;
  return outcome.kind === 'unknown' || (!outcome.result.success && outcome.source === 'tool');
}

function finished({ attempt }: Dispatch, call: ToolCall, n: number, outcome: Outcome): CallStanding {
  const { ledger } = attempt.ports;
  const executed = { ...call, executions: n };
  if (outcome.kind === 'unknown') {
    const error = wellFormedText(outcome.error);
    const result = unknownResult(call.name, error);
    attempt.note(ledger.executionUnknown(executed, n, error, result));
    return { kind: 'settled', call: { ...executed, state: 'unknown', result }, result };
  }
  const { result, source } = outcome;
  attempt.note(ledger.executionFinished(executed, n, result, source));
  const state = result.success ? 'succeeded' : 'failed';
  return { kind: 'settled', call: { ...executed, state, result }, result };
}

async function backOff({ attempt, bounds }: Dispatch, n: number): Promise<void> {
  const { baseDelayMs, maxDelayMs } = attempt.snapshot.config.retry;
  const delay = Math.min(maxDelayMs, baseDelayMs * 2 ** (n - 1));
  await bounds.race(attempt.ports.clock.sleep(delay, bounds.signal));
}

/**
 * A call that a dead runner left executing: pure and idempotent ones are executed again under the same key – asked about
 * again first, if the policies are no longer the same – of any other the outcome is unknown and the model is told.
 */
export async function recoverCall(dispatch: Dispatch, call: ToolCall): Promise<CallStanding> {
  const tool = dispatch.attempt.ports.tools.lookup(call.name);
  const interrupted: Outcome = { kind: 'unknown', error: 'the runner stopped during the execution' };
  if (call.effect === 'effectful' || tool?.effect === 'effectful') {
    return finished(dispatch, call, call.executions, interrupted);
  }
  const again = await askedAgain(dispatch, call, 'Interrupted');
  if (again.kind !== 'ready') return finished(dispatch, call, call.executions, again);
  const committed = await started(dispatch, again.call, call.executions + 1, again.gated);
  return committed ? execute(dispatch, again) : finished(dispatch, call, call.executions, interrupted);
}

/** What became of the execution before, as the model is told of a call that is not executed again. */
type Before = 'Interrupted' | 'Failed' | 'Without an outcome';

/**
 * A further execution, held against the policies that would be asked now: they are, if they are no longer the same. It
 * cannot wait for a person, nor run with other arguments under the key of the first.
 */
async function askedAgain(dispatch: Dispatch, call: ToolCall, before: Before): Promise<ReadyCall | Outcome> {
  const { ports } = dispatch.attempt;
  const tool = ports.tools.lookup(call.name);
  if (tool === undefined) return refusal(before, `there is no tool ${call.name} any more`);
  const gateVersion = ports.gateVersionOf(tool.name);
  const { gated } = call;
  const digest = seal(dispatch, call, tool);
  if (gated?.digest === digest && gated.gateVersion === gateVersion) return { kind: 'ready', call, tool, gated };
  const decision = await callDecision(dispatch, call, tool);
  if (decision.kind === 'settle') {
    const { result, source } = decision;
    return { kind: 'result', result, source: source === 'person' ? 'host' : source };
  }
  if (!jsonEqual(decision.args, call.arguments)) return refusal(before, 'a policy has changed its arguments since');
  if (decision.reasons.length > 0 && gated?.decision !== 'ask')
    return refusal(before, 'a policy now wants it approved');
  const renewed: GatedCall = {
    digest,
    gateVersion,
    decision: gated?.decision ?? 'proceed',
    reasons: gated?.reasons ?? [],
  };
  dispatch.attempt.note(ports.ledger.callGated(call, renewed));
  return { kind: 'ready', call: { ...call, gated: renewed }, tool, gated: renewed };
}

function refusal(before: Before, why: string): Outcome {
  return { kind: 'result', result: failedResult(`${before}, and not executed again: ${why}.`), source: 'host' };
}
