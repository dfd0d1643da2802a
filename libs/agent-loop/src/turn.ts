import type { Message, OpenTurn, ToolCall, ToolDefinition, Turn } from '@codedock/domain';
import { addUsage } from '@codedock/domain';
import { askOrEnd, tell } from './ask-gate.js';
import type { Attempt } from './attempt.js';
import { compactContext } from './compaction/compact-context.js';
import { contextFor } from './context.js';
import { limitBeforeCalls } from './limits.js';
import { ending } from './loop-result.js';
import { callModel } from './model-call.js';
import { messageOf, proposedCalls, revisedMessage } from './reply.js';
import { dispatchCalls, failOpenCalls } from './tool-dispatch.js';
import { STOPPED_RESULT } from './tool-results.js';

/** What a turn says about the next one. */
export type TurnOutcome = 'tools_called' | 'answered';

/** A new turn: one model call and the tool calls of its reply. */
export async function runTurn(attempt: Attempt): Promise<TurnOutcome> {
  const tools = await attempt.bounds.race(attempt.ports.tools.visible());
  const turn: Turn = { id: attempt.ports.ids.next(), iteration: attempt.state.iteration + 1 };
  enter(attempt, turn);
  attempt.note(
    attempt.ports.ledger.turnStarted(
      turn,
      tools.map(({ name }) => name),
    ),
  );
  tellTurn(attempt, 'onTurnStart', turn, false);
  return modelThenTools(attempt, turn, tools, false);
}

/** A turn that a former attempt left open goes on after the last thing that was stored. */
export async function resumeTurn(attempt: Attempt, open: OpenTurn): Promise<TurnOutcome> {
  const { ledger, tools } = attempt.ports;
  const turn: Turn = { id: open.id, iteration: open.iteration };
  enter(attempt, turn);
  if (open.reply === undefined) {
    attempt.note(ledger.turnRestarted(turn, 'attempt'));
    const visible = await attempt.bounds.race(tools.visible());
    // Only what the turn recorded as offered: a later resume knows no other names.
    const offered = visible.filter(({ name }) => open.tools.includes(name));
    return modelThenTools(attempt, turn, offered, true);
  }
  attempt.note(ledger.turnResumed(turn));
  tellTurn(attempt, 'onTurnStart', turn, true);
  const { reply } = open;
  if (!attempt.state.messages.some(({ id }) => id === reply.id)) attempt.remember(reply);
  return toolsOf(attempt, turn, open.calls, open.tools, true);
}

/** Executes the calls of a completed turn that a person wants to be tried again. */
export async function retryCalls(attempt: Attempt, { id, iteration, calls, tools }: OpenTurn): Promise<void> {
  const turn: Turn = { id, iteration };
  attempt.state.turn = turn;
  await dispatchCalls(attempt, turn, calls, tools);
  attempt.state.turn = undefined;
}

async function modelThenTools(
  attempt: Attempt,
  turn: Turn,
  tools: readonly ToolDefinition[],
  resumed: boolean,
): Promise<TurnOutcome> {
  const context = (await compactContext(attempt, turn, tools)) ?? (await contextFor(attempt, turn));
  if ('kind' in context) {
    leave(attempt, turn, resumed);
    throw ending('stopped_by_hook', context.reason, context.by);
  }
  const reply = await callModel(attempt, turn, context, { tools });
  const { message: said, repaired } = messageOf(attempt, turn, reply);
  const decision = await askOrEnd(
    attempt,
    'afterModelCall',
    { message: said, usage: reply.usage, finishReason: reply.finishReason },
    { turnId: turn.id },
  );
  const message = revisedMessage(attempt, said, decision?.message);
  const calls = proposedCalls(attempt, turn, message);
  storeReply(attempt, turn, message, {
    message,
    calls,
    usage: reply.usage,
    finishReason: reply.finishReason,
    ...(repaired ? { repaired } : {}),
  });
  if (decision?.kind === 'stop') {
    const by = decision.by === undefined ? {} : { hook: decision.by };
    failOpenCalls(attempt, turn, calls, String(STOPPED_RESULT.output), { source: 'hook', ...by });
    leave(attempt, turn, resumed);
    throw ending('stopped_by_hook', decision.reason, decision.by);
  }
  const offered = tools.map(({ name }) => name);
  return toolsOf(attempt, turn, calls, offered, resumed);
}

function storeReply(
  attempt: Attempt,
  turn: Turn,
  message: Message,
  reply: Parameters<Attempt['ports']['ledger']['assistantCompleted']>[1],
): void {
  const { ledger } = attempt.ports;
  if (attempt.snapshot.config.holdDeltas) {
    attempt.note(ledger.assistantStarted(turn));
    if ('text' in message.content && message.content.text !== '') ledger.assistantDelta(turn, message.content.text);
  }
  attempt.note(ledger.assistantCompleted(turn, reply));
  attempt.remember(message);
  attempt.state.usage = addUsage(attempt.state.usage, reply.usage);
  const counted = reply.usage.inputTokens + reply.usage.outputTokens;
  attempt.state.measured = counted === 0 ? undefined : { messageId: message.id, tokens: counted };
  attempt.state.toolCalls += reply.calls.length;
}

async function toolsOf(
  attempt: Attempt,
  turn: Turn,
  calls: readonly ToolCall[],
  offered: readonly string[],
  resumed: boolean,
): Promise<TurnOutcome> {
  if (calls.length > 0) {
    const limit = limitBeforeCalls(attempt);
    if (limit !== undefined) {
      failOpenCalls(attempt, turn, calls, `Not executed: ${limit.message}`, { source: 'host' });
      leave(attempt, turn, resumed);
      throw ending(limit.stopReason, limit.message);
    }
    await dispatchCalls(attempt, turn, calls, offered);
  }
  leave(attempt, turn, resumed);
  return calls.length > 0 ? 'tools_called' : 'answered';
}

function enter(attempt: Attempt, turn: Turn): void {
  attempt.state.turn = turn;
  attempt.state.iteration = turn.iteration;
}

function leave(attempt: Attempt, turn: Turn, resumed: boolean): void {
  tellTurn(attempt, 'onTurnEnd', turn, resumed);
  attempt.note(attempt.ports.ledger.turnCompleted(turn));
  attempt.state.turn = undefined;
}

function tellTurn(attempt: Attempt, name: 'onTurnStart' | 'onTurnEnd', turn: Turn, resumed: boolean): void {
  const { runId, sessionId } = attempt.snapshot;
  const event = { runId, sessionId, turnId: turn.id, iteration: turn.iteration, resumed };
  tell(attempt, name, event, { turnId: turn.id });
}
