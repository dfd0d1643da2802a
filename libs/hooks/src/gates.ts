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
/** The text a caller sent, before anything is stored. */
export interface InputEvent {
  readonly content: string;
  readonly mode?: string;
}
/** Accept the input with another text or mode. */
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
/** Answer of `beforeInput`. */
export type InputDecision = Continue | TransformInput | Handled | Block;

// 2 beforeRunStart
/** What a run begins with; `hidden` messages reach the model and are stored nowhere. */
export interface RunStartEvent {
  readonly systemPrompt: string;
  readonly hidden: readonly Message[];
}
/** Begin the run, with another prompt or other hidden messages where given. */
export interface ContinueRun {
  readonly kind: 'continue';
  readonly systemPrompt?: string;
  readonly hidden?: readonly Message[];
}
/** Answer of `beforeRunStart`. */
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
/** Answer of `onLoop`. */
export type LoopDecision = Continue | Stop;

// 4 transformContext
/** What the model is about to read. */
export interface ContextEvent {
  readonly systemPrompt: string;
  readonly messages: readonly Message[];
}
/** What the model reads instead, for this call alone. Absent = unchanged. */
export interface ReplyContext {
  readonly kind: 'reply';
  readonly systemPrompt?: string;
  readonly messages?: readonly Message[];
}
/** Answer of `transformContext`. */
export type ContextDecision = ReplyContext | Stop;

// 5 beforeProviderHeaders
/** Headers of the request to the provider, credentials not among them. */
export interface ProviderHeadersEvent {
  readonly headers: HttpHeaders;
}
/** Answer of `beforeProviderHeaders`. */
export interface ReplyHeaders {
  readonly kind: 'reply';
  /** All headers: a name that is missing is removed. */
  readonly headers?: HttpHeaders;
}

// 6 beforeProviderRequest
/** The request to the provider as it will be sent, credentials not among its headers. */
export interface ProviderRequestEvent {
  readonly headers: HttpHeaders;
  /** JSON text about to be sent. */
  readonly body: string;
}
/** Answer of `beforeProviderRequest`. Absent = unchanged. */
export interface ReplyRequest {
  readonly kind: 'reply';
  /** Laid over the request's: a missing name stays. */
  readonly headers?: HttpHeaders;
  /** JSON text sent as it is. */
  readonly body?: string;
}

// 7 afterProviderResponse
/** Head of the provider’s answer. */
export interface ProviderResponseEvent {
  readonly status: number;
  readonly headers: HttpHeaders;
}

// 8 afterModelCall
/** A complete reply of the model, before it is stored. */
export interface ModelCallEvent {
  readonly message: Message;
  readonly usage: Usage;
  readonly finishReason: string;
}
/** Go on, with another reply where given. */
export interface ContinueReply {
  readonly kind: 'continue';
  readonly message?: Message;
}
/** `stop` stores the reply all the same: `message` is what earlier hooks made of it, absent when unchanged. */
export interface StopReply extends Stop {
  readonly message?: Message;
}
/** Answer of `afterModelCall`. */
export type ModelCallDecision = ContinueReply | StopReply;

// 9 beforeToolCall
/** A call with valid arguments that the profile permits, before anybody is asked for approval. */
export interface ToolCallEvent {
  readonly call: { readonly id: string; readonly name: string; readonly arguments: JsonValue };
  readonly tool: { readonly requiresApproval: boolean; readonly effect: EffectClass; readonly plugin?: string };
}
/** Nothing against the call, with other arguments where given. */
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
/** Answer of `beforeToolCall`. */
export type ToolCallDecision = Proceed | Block | Skip | Ask | Abort;

// 10 afterToolCall
/** What an execution gave, before it is stored. */
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
/** Name of a gate. */
export type GateName = keyof Gates;
/** What the gate’s hook is told. */
export type GateEvent<G extends GateName> = Gates[G]['event'];
/** What the gate’s hook may answer. */
export type GateDecision<G extends GateName> = Gates[G]['decision'];

/** One typed function on a gate. Contract: may throw (the run fails with `hook_error`); honours `call.signal`; never mutates the event. */
export type GateHook<G extends GateName> = (
  event: GateEvent<G>,
  call: GateCall,
) => Promise<GateDecision<G>> | GateDecision<G>;

// Notifications
/** A run has started. */
export interface RunNotification {
  readonly runId: string;
  readonly sessionId: string;
}
/** A turn has started or ended; `resumed` when an earlier attempt began it. */
export interface TurnNotification extends RunNotification {
  readonly turnId: string;
  readonly iteration: number;
  readonly resumed: boolean;
}
/** The `n`th execution of a call has started. */
export interface ToolExecutionNotification extends RunNotification {
  readonly turnId: string;
  readonly call: { readonly id: string; readonly name: string; readonly arguments: JsonValue };
  readonly n: number;
}
/** A run is about to end in this state; again, should the process die before that is stored. */
export interface RunEndNotification extends RunNotification {
  readonly status: string;
  readonly stopReason: string;
  readonly message?: string;
  readonly metadata: JsonObject;
}
/** Event of every notification, by its name. */
export interface Notifications {
  onRunStart: RunNotification;
  onTurnStart: TurnNotification;
  onToolExecutionStart: ToolExecutionNotification;
  onTurnEnd: TurnNotification;
  onRunEnd: RunEndNotification;
}
/** Name of a notification. */
export type NotificationName = keyof Notifications;
/** Told, not asked: started in order, not awaited; what it returns or throws is ignored. The scratchpad is read-only. */
export type NotificationHook<N extends NotificationName> = (event: Notifications[N], call: GateCall) => unknown;

/** Optional hooks, one field per gate and notification. Absent = the loop does what it would do without hooks. */
export type Hooks = { readonly [G in GateName]?: GateHook<G> } & {
  readonly [N in NotificationName]?: NotificationHook<N>;
};
