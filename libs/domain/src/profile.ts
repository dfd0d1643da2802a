import type { JsonObject } from './json.js';

/** Whether a tool's requirement of an approval asks a person (`manual`), is waived (`auto`; a hook's ask never is) or denied because nobody is there (`never`). */
export type ApprovalMode = 'manual' | 'auto' | 'never';

/** Which model a run talks to. `options` are the provider's own (for `fake`: `{script: FakeStep[]}`). */
export interface ModelChoice {
  readonly provider: 'fake' | 'openai';
  readonly name: string;
  readonly options?: JsonObject;
  /** Largest reply, in tokens. */
  readonly maxOutputTokens?: number;
  /** Tokens that context and reply may have together; absent = `DEFAULT_CONTEXT_WINDOW`. */
  readonly contextWindow?: number;
}

/** Window of a model that declares none, in tokens. */
export const DEFAULT_CONTEXT_WINDOW = 128_000;

/** When a run's context is shortened, as shares of the model's window. */
export interface ContextPolicy {
  /** Per cent of the window at which older messages are summarised, 10–100. */
  readonly compactAtPercent: number;
  /** Per cent of the window that the newest messages, kept as they are, may take, 1–90. */
  readonly keepRecentPercent: number;
}

/** The policy of a profile that declares none. */
export const DEFAULT_CONTEXT_POLICY: ContextPolicy = { compactAtPercent: 80, keepRecentPercent: 25 };

/** Limits of one run. */
export interface RunLimits {
  /** Model calls, 1–1,000. */
  readonly maxTurns: number;
  /** Tool calls over the whole run. */
  readonly maxToolCalls: number;
  /** Input plus output tokens over the whole run; absent = unlimited. */
  readonly maxTokens?: number;
  /** Wall time in milliseconds, without the time spent pending or waiting for approval. */
  readonly wallTimeMs: number;
  /** Tool calls of one turn executed at the same time. */
  readonly maxParallelTools: number;
}

/** Retries of failed tool executions and model calls; the effect class decides whether a call may be repeated at all. */
export interface RetryPolicy {
  /** Executions in all, the first included. */
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

/** What a profile's mode label may override. */
export interface ModeOverrides {
  readonly systemPrompt?: string;
  readonly model?: ModelChoice;
  readonly tools?: readonly string[];
  readonly deniedTools?: readonly string[];
}

/** An agent profile, and – frozen at creation – the configuration of a run. */
export interface AgentProfile {
  readonly name: string;
  readonly description?: string;
  readonly systemPrompt: string;
  readonly model: ModelChoice;
  /** Built-in tool names offered to the model; live plugin tools join them. */
  readonly tools: readonly string[];
  /** Tools that are never offered and never executed. */
  readonly deniedTools: readonly string[];
  readonly approvalMode: ApprovalMode;
  /** False: the one who created the run may not decide its approvals. */
  readonly creatorMayApprove: boolean;
  readonly limits: RunLimits;
  /** Absent = `DEFAULT_CONTEXT_POLICY`. */
  readonly context?: ContextPolicy;
  readonly retry: RetryPolicy;
  /** True: nothing of a turn is streamed before `afterModelCall` has returned. */
  readonly holdDeltas: boolean;
  readonly modes: Readonly<Record<string, ModeOverrides>>;
}

/** A run's frozen configuration: its profile with the mode's overrides laid over it. */
export type RunConfig = Omit<AgentProfile, 'modes'> & { readonly mode?: string };

/** The configuration for a mode label, or undefined when the profile has no such mode. */
export function configFor(profile: AgentProfile, mode: string | undefined): RunConfig | undefined {
  const { modes, ...base } = profile;
  if (mode === undefined || mode === '') return base;
  const overrides = Object.hasOwn(modes, mode) ? modes[mode] : undefined;
  return overrides === undefined ? undefined : { ...base, ...overrides, mode };
}
