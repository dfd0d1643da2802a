/** Tokens of model calls. Providers that report none count as 0. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** No tokens. */
export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };

/** Sum of two usages. */
export function addUsage(a: Usage, b: Usage): Usage {
  return { inputTokens: a.inputTokens + b.inputTokens, outputTokens: a.outputTokens + b.outputTokens };
}
