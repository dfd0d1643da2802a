import type { JsonValue } from '../json.js';
import type { Principal } from '../principal.js';

/**
 * Whose session (and run) a call back is about. An input or a tool's call is one; with it, the call back also ends when
 * the question does.
 */
export interface SessionAddress {
  readonly sessionId: string;
  readonly runId?: string;
  readonly signal?: AbortSignal;
}

/** Whose memory: the session's, the user's of the session, or the tenant's. */
export type MemoryScope = 'session' | 'user' | 'tenant';

/**
 * What a plugin may ask of the host. A call is answered after its effect is committed; a refusal or failure is a
 * `HostCallError`. Calls about a session are allowed while a question or tool call of that session is open, or any time
 * with the capability `background`. Every call has a deadline: 10 s, `complete` 35 s.
 */
export interface Host {
  /** Offers a tool to the model; the same name again replaces the plugin's own. Names of built-in or other plugins' tools are refused. */
  registerTool(tool: Tool): Promise<void>;
  /** Tells other plugins of this replica; never a port's, decision's or ledger event's name. */
  emit(of: SessionAddress, event: string, payload?: JsonValue): Promise<void>;
  /** A system message of kind notice that a person sees and the model does not. */
  appendNotice(of: SessionAddress, text: string): Promise<void>;
  /** One model call outside the run, accounted to it; passes no gate. */
  complete(of: SessionAddress, request: { readonly prompt: string; readonly text: string }): Promise<string>;
  readonly memory: {
    /** Undefined when there is nothing under the name. */
    get(of: SessionAddress, name: string, scope?: MemoryScope): Promise<string | undefined>;
    upsert(of: SessionAddress, name: string, text: string, scope?: MemoryScope): Promise<void>;
  };
  readonly tools: {
    active(of: SessionAddress): Promise<readonly string[]>;
    setActive(of: SessionAddress, names: readonly string[]): Promise<void>;
  };
  readonly settings: {
    /** Undefined when the setting has no value. */
    get(of: SessionAddress, key: string): Promise<JsonValue | undefined>;
    set(of: SessionAddress, key: string, value: JsonValue): Promise<void>;
  };
  readonly secrets: {
    /** Undefined when there is none. */
    get(of: SessionAddress, key: string): Promise<string | undefined>;
    set(of: SessionAddress, key: string, value: string): Promise<void>;
  };
  systemPrompt(of: SessionAddress): Promise<string>;
  /** Names of the models the session's profile may use. */
  models(of: SessionAddress): Promise<readonly string[]>;
}

/** What every question, notification and tool call carries beside its own values. */
export interface CallContext {
  readonly sessionId: string;
  /** Empty before there is a run (agent/input). */
  readonly runId: string;
  readonly turnId: string;
  /** Who asks. */
  readonly principal: Principal;
  /** Aborted when the host does not wait any more: it cancelled, or its deadline passed. */
  readonly signal: AbortSignal;
  /** Milliseconds left when the question arrived; Infinity when the host did not say. */
  readonly budgetMs: number;
  /** Calls back into the host; pass this input as the address: `input.host.appendNotice(input, 'text')`. */
  readonly host: Host;
}

/** JSON Schema 2020-12 of an object. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** Whether executing twice does harm: `pure` changes nothing, `idempotent` honours the idempotency key. */
export type EffectClass = 'pure' | 'idempotent' | 'effectful';

/** One execution: who asks for it, and what makes it safe to repeat. */
export interface ToolExecution extends CallContext {
  readonly callId: string;
  /** The same for every attempt at the same call: remember it to have an effect only once. */
  readonly idempotencyKey: string;
  /** From 1. */
  readonly attempt: number;
}

/** What a tool may answer. */
// biome-ignore lint/suspicious/noConfusingVoidType: a tool that only acts has no return statement.
export type ToolOutput = JsonValue | undefined | void;

/** A tool as the host and the dispatch see it, whatever its arguments are. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parametersSchema: JsonSchema;
  readonly requiresApproval: boolean;
  readonly effect: EffectClass;
  /** Milliseconds; 0 = the host's default. */
  readonly timeoutMs: number;
  /** Checks the arguments and executes. @throws what the tool throws, or an error saying which argument is wrong. */
  run(args: JsonValue, call: ToolExecution): Promise<ToolOutput>;
}
