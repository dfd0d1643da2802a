import type {
  JsonObject,
  JsonValue,
  LoopView,
  Message,
  ToolCall,
  ToolDefinition,
  ToolExecution,
  ToolInvocation,
  ToolResult,
  Usage,
} from '@codedock/domain';
import type { Abort, Proceed, Skip, Stop } from './gates.js';

/** Read-only state of the run as the loop sees it at this moment. */
export interface ExtensionState {
  readonly run: LoopView['run'];
  /** Absent before the first turn and between turns. */
  readonly turn?: NonNullable<LoopView['turn']>;
  readonly iteration: number;
  readonly messages: readonly Message[];
  readonly usage: Usage;
}

/** The run's metadata: shared by all extensions, checkpointed with the next fact, part of the run for good. */
export interface MetadataBag {
  get(key: string): JsonValue | undefined;
  set(key: string, value: JsonValue): void;
  delete(key: string): void;
  all(): JsonObject;
}

/** What every callback of an extension gets. */
export interface ExtensionContext {
  readonly state: ExtensionState;
  readonly metadata: MetadataBag;
  /** Aborts on cancel, lease loss or deadline: whoever waits – for a person, say – listens to it. */
  readonly signal: AbortSignal;
  /** Appends an event of this extension to the session's ledger. */
  emit(name: string, payload: JsonValue): void;
}

/** How a run ended, as `onEnd` is told. */
export interface ExtensionEnd {
  readonly runId: string;
  readonly sessionId: string;
  readonly status: string;
  readonly stopReason: string;
  readonly message?: string;
  readonly metadata: JsonObject;
}

/** A tool that lives in this process. It goes through the same dispatch as any other. */
export interface ExtensionTool {
  /** Its schema digest is computed by the registry. */
  readonly definition: Omit<ToolDefinition, 'schemaDigest' | 'plugin'>;
  /** Executes once; honours the signal. What it throws becomes a failed result. */
  execute(invocation: ToolInvocation, signal: AbortSignal): Promise<ToolExecution> | ToolExecution;
}

type Answer<T> = T | undefined | Promise<T | undefined>;
type Silent = void | Promise<void>;

/** What `onModelStart` may change: the messages of this one model call. */
export interface ChangedMessages {
  readonly messages: readonly Message[];
}

/**
 * A small extension: it implements only what it cares about. `onToolStart` and `onToolEnd` run concurrently between
 * calls of one turn; everything else is serial within a run. What a callback throws fails the run with `hook_error` and
 * the extension's name, except in `onToolEnd` (the result is kept) and `onEnd` (ignored).
 */
export interface Extension {
  readonly name: string;
  readonly tools?: readonly ExtensionTool[];
  /** Once per run, before its first turn; not at resume. */
  onStart?(context: ExtensionContext): Silent;
  /** At the back edge. `{kind: 'stop', reason}` ends the run in good order. */
  onLoop?(context: ExtensionContext): Answer<Stop> | Silent;
  /** Before every model call: repaired messages for this call, or a stop. `messages` include the hidden ones. */
  onModelStart?(
    context: ExtensionContext,
    request: { readonly systemPrompt: string; readonly messages: readonly Message[] },
  ): Answer<ChangedMessages | Stop> | Silent;
  /** After every complete reply, before it is stored. */
  onModelEnd?(
    context: ExtensionContext,
    reply: { readonly message: Message; readonly usage: Usage; readonly finishReason: string },
  ): Answer<Stop> | Silent;
  /** Before every tool call: `Proceed` (or nothing), `Skip(result)`, `Abort`. */
  onToolStart?(
    context: ExtensionContext,
    call: Pick<ToolCall, 'id' | 'name' | 'arguments'>,
  ): Answer<Proceed | Skip | Abort> | Silent;
  /** After every execution: what it returns replaces the result, field by field. */
  onToolEnd?(
    context: ExtensionContext,
    call: Pick<ToolCall, 'id' | 'name' | 'arguments'>,
    result: ToolResult,
  ): Answer<Partial<ToolResult>> | Silent;
  /** Once per run, whatever happened; also where no loop ran (then without a state). */
  onEnd?(end: ExtensionEnd, context?: ExtensionContext): Silent;
}
