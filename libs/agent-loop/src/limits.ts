import type { StopReason, Usage } from '@codedock/domain';
import type { Attempt } from './attempt.js';

/** A limit of the run that is reached, and what people are told. */
export interface LimitReached {
  readonly stopReason: StopReason;
  readonly message: string;
}

const tokens = (usage: Usage) => usage.inputTokens + usage.outputTokens;

/** The limit that forbids a further model call. */
export function limitBeforeTurn(attempt: Attempt): LimitReached | undefined {
  const { maxTurns } = attempt.snapshot.config.limits;
  const { iteration } = attempt.state;
  if (iteration >= maxTurns) {
    return { stopReason: 'max_turns', message: `The run has made all the ${maxTurns} model calls it may make.` };
  }
  return budgetUsed(attempt);
}

/** The token budget, when what has been used forbids a further model call. */
export function budgetUsed(attempt: Attempt): LimitReached | undefined {
  const { maxTokens } = attempt.snapshot.config.limits;
  return maxTokens !== undefined && tokens(attempt.state.usage) >= maxTokens ? tokensUsed(maxTokens) : undefined;
}

/** The limit that forbids the open calls of a reply that has just been counted. */
export function limitBeforeCalls(attempt: Attempt): LimitReached | undefined {
  const { maxToolCalls, maxTokens } = attempt.snapshot.config.limits;
  const { toolCalls, usage } = attempt.state;
  if (toolCalls > maxToolCalls) {
    return {
      stopReason: 'max_tool_calls',
      message: `The run may make ${maxToolCalls} tool calls and this reply would exceed them.`,
    };
  }
  return maxTokens !== undefined && tokens(usage) > maxTokens ? tokensUsed(maxTokens) : undefined;
}

function tokensUsed(maxTokens: number): LimitReached {
  return { stopReason: 'budget_exceeded', message: `The run has used the ${maxTokens} tokens it may use.` };
}
