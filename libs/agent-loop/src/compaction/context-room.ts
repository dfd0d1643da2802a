import { DEFAULT_CONTEXT_POLICY, DEFAULT_CONTEXT_WINDOW, type RunConfig } from '@codedock/domain';
import type { ContextSize } from './context-size.js';

/** Largest JSON of a context, bytes: what a gate takes, less its framing. */
export const MAX_CONTEXT_BYTES = 3.5 * 1024 * 1024;

const MOST_REPLY_TOKENS = 4_096;

/** How much room a run's configuration leaves for contexts. */
export interface ContextRoom {
  /** No model call holds more. */
  readonly hard: ContextSize;
  /** What holds more is shortened. */
  readonly soft: ContextSize;
  /** The newest messages, kept as they are. */
  readonly keep: ContextSize;
  /** Tokens of a summary. */
  readonly summaryTokens: number;
}

/** The room of a run. With a `scale` over 1 the provider counts that much more than the estimate, and all shrinks. */
export function roomOf(config: Pick<RunConfig, 'model' | 'context'>, scale = 1): ContextRoom {
  const { contextWindow = DEFAULT_CONTEXT_WINDOW, maxOutputTokens } = config.model;
  const { compactAtPercent, keepRecentPercent } = config.context ?? DEFAULT_CONTEXT_POLICY;
  const eighth = Math.floor(contextWindow / 8);
  // A reply must have room, but not all of it: a profile may ask for more output than makes sense.
  const reply = Math.min(maxOutputTokens ?? Math.min(MOST_REPLY_TOKENS, eighth), Math.floor(contextWindow / 2));
  const estimated = (tokens: number) => Math.floor(tokens / scale);
  const hard = { tokens: estimated(contextWindow - reply), bytes: MAX_CONTEXT_BYTES };
  const soft = Math.min(hard.tokens, estimated((contextWindow * compactAtPercent) / 100));
  return {
    hard,
    soft: { tokens: soft, bytes: MAX_CONTEXT_BYTES },
    keep: {
      tokens: Math.min(soft, estimated((contextWindow * keepRecentPercent) / 100)),
      bytes: (MAX_CONTEXT_BYTES * keepRecentPercent) / 100,
    },
    summaryTokens: Math.max(1, Math.min(reply, eighth)),
  };
}
