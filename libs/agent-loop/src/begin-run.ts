import { type JsonValue, type Message, wellFormedJson, wellFormedText } from '@codedock/domain';
import { askOrEnd, tell } from './ask-gate.js';
import type { Attempt } from './attempt.js';
import { ending } from './loop-result.js';

/**
 * Settles system prompt and hidden messages once for the whole run. Where a hook stands on the gate or waits for the
 * start, the checkpoint is committed before the loop goes on: no resume asks again, and the start is told at most once.
 */
export async function beginRun(attempt: Attempt): Promise<void> {
  const { snapshot, ports, hooks, state } = attempt;
  const event = { systemPrompt: snapshot.config.systemPrompt, hidden: [] };
  const decision = await askOrEnd(attempt, 'beforeRunStart', event, {});
  if (decision?.kind === 'block') throw ending('blocked_by_hook', decision.reason, decision.by);
  state.systemPrompt = wellFormedText(decision?.systemPrompt ?? event.systemPrompt);
  state.hidden = (decision?.hidden ?? event.hidden).map(repairedMessage);
  const stored = ports.ledger.runStarted({ systemPrompt: state.systemPrompt, hidden: state.hidden });
  if (hooks.beforeRunStart === undefined && hooks.onRunStart === undefined) attempt.note(stored);
  else await attempt.commit(stored);
  tell(attempt, 'onRunStart', { runId: snapshot.runId, sessionId: snapshot.sessionId }, {});
}

function repairedMessage(message: Message): Message {
  return wellFormedJson(message as unknown as JsonValue) as unknown as Message;
}
