import type {
  AskReason,
  EffectClass,
  GateCall,
  HttpHeaders,
  JsonObject,
  JsonValue,
  Message,
  ToolResult,
  Usage,
} from '@codedock/domain';
import type { CouldNotAsk } from './could-not-ask.js';

/** Continue as if there were no hook. */
export interface Continue {
  readonly kind: 'continue';
}
/** A policy's no. `by` names the hook. */
export interface Block {
  readonly kind: 'block';
  readonly reason: string;
  readonly by?: string;
}
/** End the run in good order: `completed`, `stopped_by_hook`. */
export interface Stop {
  readonly kind: 'stop';
  readonly reason: string;
  readonly by?: string;
}

// 1 beforeInput
export interface InputEvent {
  readonly content: string;
  readonly mode?: string;
}
export interface TransformInput {
  readonly kind: 'transform';
  /** Absent = unchanged. */
  readonly content?: string;
  /** Absent = unchanged. */
  readonly mode?: string;
}
/** The input is dealt with: nothing is created or cancelled. */
export interface Handled {
  readonly kind: 'handled';
  readonly by?: string;
}
export type InputDecision = Continue | TransformInput | Handled | Block;

// 2 beforeRunStart
export interface RunStartEvent {
  readonly systemPrompt: string;
  readonly hidden: readonly Message[];
}
export interface ContinueRun {
  readonly kind: 'continue';
  readonly systemPrompt?: string;
  readonly hidden?: readonly Message[];
}
export type RunStartDecision = ContinueRun | Block;

// 3 onLoop
/** Read-only view of a run between iterations. */
export interface LoopState {
  readonly runId: string;
  readonly sessionId: string;
  /** The turn about to start; 2 is the first back edge. */
  readonly iteration: number;
  readonly messages: readonly Message[];
  readonly usage: Usage;
}
export type LoopDecision = Continue | Stop;

// 4 transformContext
export interface ContextEvent {
  readonly systemPrompt: string;
  readonly messages: readonly Message[];
}
export interface ReplyContext {
  readonly kind: 'reply';
  readonly systemPrompt?: string;
  readonly messages?: readonly Message[];
}
export type ContextDecision = ReplyContext | Stop;

// 5 beforeProviderHeaders
export interface ProviderHeadersEvent {
  readonly headers: HttpHeaders;
}
export interface ReplyHeaders {
  readonly kind: 'reply';
  /** All headers: a name that is missing is removed. */
  readonly headers?: HttpHeaders;
}

// 6 beforeProviderRequest
export interface ProviderRequestEvent {
  readonly headers: HttpHeaders;
  /** JSON text about to be sent. */
  readonly body: string;
}
export interface ReplyRequest {
  readonly kind: 'reply';
  /** Laid over the request's: a missing name stays. */
  readonly headers?: HttpHeaders;
  /** JSON text sent as it is. */
  readonly body?: string;
}

// 7 afterProviderResponse
export interface ProviderResponseEvent {
  readonly status: number;
  readonly headers: HttpHeaders;
}

// 8 afterModelCall
export interface ModelCallEvent {
  readonly message: Message;
  readonly usage: Usage;
  readonly finishReason: string;
}
export interface ContinueReply {
  readonly kind: 'continue';
  readonly message?: Message;
}
/** `stop` stores the reply all the same: `message` is what earlier hooks made of it, absent when unchanged. */
export interface StopReply extends Stop {
  readonly message?: Message;
}
export type ModelCallDecision = ContinueReply | StopReply;

// 9 beforeToolCall
export interface ToolCallEvent {
  readonly call: { readonly id: string; readonly name: string; readonly arguments: JsonValue };
  readonly tool: { readonly requiresApproval: boolean; readonly effect: EffectClass; readonly plugin?: string };
}
export interface Proceed {
  readonly kind: 'proceed';
  readonly arguments?: JsonValue;
}
/** The answer of a hook that has nothing against the call. */
export const Proceed: Proceed = Object.freeze({ kind: 'proceed' });
/** Successful result stored without executing. */
export interface Skip {
  readonly kind: 'skip';
  readonly result: JsonValue;
  readonly by?: string;
}
/** What the model is told of a skipped call when the hook says nothing. */
export const SKIPPED_TEXT = 'The call was skipped.';
/** Skips a call with that result; absent, null or the empty string gives the default text. */
export function Skip(result?: JsonValue): Skip {
  return { kind: 'skip', result: result === undefined || result === null || result === '' ? SKIPPED_TEXT : result };
}
/** Ask a person. Sticky: it does not end the chain, and later block, skip or abort win over it. */
export interface Ask {
  readonly kind: 'ask';
  readonly reasons: readonly AskReason[];
  readonly arguments?: JsonValue;
}
/** End the run: `blocked`, `aborted_by_hook`. */
export interface Abort {
  readonly kind: 'abort';
  readonly reason: string;
  readonly by?: string;
}
/** Ends the run without a reason of its own. */
export const Abort: Abort = Object.freeze({ kind: 'abort', reason: 'A hook aborted the run.' });
export type ToolCallDecision = Proceed | Block | Skip | Ask | Abort;

// 10 afterToolCall
export interface ToolResultEvent {
  readonly call: { readonly id: string; readonly name: string; readonly arguments: JsonValue };
  readonly result: ToolResult;
  /** Which execution of the call this was. */
  readonly n: number;
}
/** Field by field: an absent field keeps its value, a present null replaces it. */
export interface ReplyResult {
  readonly kind: 'reply';
  readonly output?: JsonValue;
  readonly error?: string | null;
  readonly success?: boolean;
}

/** Event and decision of every gate, by the gate's name. */
export interface Gates {
  beforeInput: { event: InputEvent; decision: InputDecision | CouldNotAsk };
  beforeRunStart: { event: RunStartEvent; decision: RunStartDecision | CouldNotAsk };
  onLoop: { event: LoopState; decision: LoopDecision };
  transformContext: { event: ContextEvent; decision: ContextDecision | CouldNotAsk };
  beforeProviderHeaders: { event: ProviderHeadersEvent; decision: ReplyHeaders };
  beforeProviderRequest: { event: ProviderRequestEvent; decision: ReplyRequest | CouldNotAsk };
  // biome-ignore lint/suspicious/noConfusingVoidType: an observer answers nothing.
  afterProviderResponse: { event: ProviderResponseEvent; decision: void };
  afterModelCall: { event: ModelCallEvent; decision: ModelCallDecision };
  beforeToolCall: { event: ToolCallEvent; decision: ToolCallDecision | CouldNotAsk };
  afterToolCall: { event: ToolResultEvent; decision: ReplyResult | CouldNotAsk };
}
export type GateName = keyof Gates;
export type GateEvent<G extends GateName> = Gates[G]['event'];
export type GateDecision<G extends GateName> = Gates[G]['decision'];

/** One typed function on a gate. Contract: may throw (the run fails with `hook_error`); honours `call.signal`; never mutates the event. */
export type GateHook<G extends GateName> = (
  event: GateEvent<G>,
  call: GateCall,
) => Promise<GateDecision<G>> | GateDecision<G>;

// Notifications
export interface RunNotification {
  readonly runId: string;
  readonly sessionId: string;
}
export interface TurnNotification extends RunNotification {
  readonly turnId: string;
  readonly iteration: number;
  readonly resumed: boolean;
}
export interface ToolExecutionNotification extends RunNotification {
  readonly turnId: string;
  readonly call: { readonly id: string; readonly name: string; readonly arguments: JsonValue };
  readonly n: number;
}
export interface RunEndNotification extends RunNotification {
  readonly status: string;
  readonly stopReason: string;
  readonly message?: string;
  readonly metadata: JsonObject;
}
export interface Notifications {
  onRunStart: RunNotification;
  onTurnStart: TurnNotification;
  onToolExecutionStart: ToolExecutionNotification;
  onTurnEnd: TurnNotification;
  onRunEnd: RunEndNotification;
}
export type NotificationName = keyof Notifications;
/** Told, not asked: started in order, not awaited; what it returns or throws is ignored. The scratchpad is read-only. */
export type NotificationHook<N extends NotificationName> = (event: Notifications[N], call: GateCall) => unknown;

/** Optional hooks, one field per gate and notification. Absent = the loop does what it would do without hooks. */
export type Hooks = { readonly [G in GateName]?: GateHook<G> } & {
  readonly [N in NotificationName]?: NotificationHook<N>;
};
