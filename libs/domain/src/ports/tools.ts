import type { JsonValue } from '../json.js';
import type { Principal } from '../principal.js';
import type { ToolDefinition, ToolExecution } from '../tool-call.js';

/** One execution of a tool call. */
export interface ToolInvocation {
  readonly tool: ToolDefinition;
  readonly callId: string;
  readonly arguments: JsonValue;
  /** 1, 2, 3 … over all executions of the call. */
  readonly n: number;
  /** The same for every execution of a call. */
  readonly idempotencyKey: string;
  readonly tenantId: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly principal: Principal;
}

/** The tools of a run: built-in, in-process and plugin tools behind one registry. */
export interface Tools {
  /** The visible set for a model call: the profile's names and live plugin tools, less the denied ones; in a stable order. */
  visible(): Promise<readonly ToolDefinition[]>;
  /** Undefined when no tool has that name now. */
  lookup(name: string): ToolDefinition | undefined;
  /** Undefined when the arguments satisfy the tool's schema, else what the model is told: which field and why. */
  validate(tool: ToolDefinition, args: JsonValue): string | undefined;
  /** Executes once, within the tool's time limit; never rejects. Aborting the signal reaches the tool. */
  execute(invocation: ToolInvocation, signal: AbortSignal): Promise<ToolExecution>;
}

/** Digest over the plugins that would be asked now before a call of this tool runs, in order. */
export type GateVersionOf = (tool: string) => string;
