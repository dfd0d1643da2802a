import type { Message, Turn } from '@codedock/domain';
import type { Stop } from '@codedock/hooks';
import { answeredHistory } from './answered-history.js';
import { askOrEnd } from './ask-gate.js';
import type { Attempt } from './attempt.js';

/** What one model call is made with. */
export interface ModelContext {
  readonly systemPrompt: string;
  /** Hidden messages first, then history. */
  readonly messages: readonly Message[];
}

/**
 * The context of the turn's model call: from stored messages, the run's system prompt and hidden messages, through the
 * gate. What the gate makes of it serves this call alone; it may also stop the run.
 */
export async function contextFor(
  attempt: Attempt,
  turn: Turn,
  history: readonly Message[] = answeredHistory(attempt.state.messages),
): Promise<ModelContext | Stop> {
  const { systemPrompt, hidden } = attempt.state;
  const built = { systemPrompt, messages: [...hidden, ...history] };
  const decision = await askOrEnd(attempt, 'transformContext', built, { turnId: turn.id });
  if (decision === undefined) return built;
  if (decision.kind === 'stop') return decision;
  return {
    systemPrompt: decision.systemPrompt ?? built.systemPrompt,
    messages: decision.messages ?? built.messages,
  };
}
