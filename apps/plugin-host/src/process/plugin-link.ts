import type { plugin } from '@codedock/proto';

/**
 * How one call over a link ended. `mayBeEnd`: the transport broke, perhaps because the process is ending; whoever
 * asked looks at the process before calling it anything else. `unsent`: the plugin certainly knows nothing of it.
 */
export type LinkResult<Reply> =
  | { readonly kind: 'answered'; readonly reply: Reply }
  | {
      readonly kind: 'failed';
      readonly outcome: 'timeout' | 'error' | 'oversize' | 'unreachable' | 'invalid';
      readonly reason: string;
      readonly mayBeEnd: boolean;
      readonly unsent?: boolean;
    };

/** Called once, unless the call is cancelled before. */
export type LinkDone<Reply> = (result: LinkResult<Reply>) => void;

/** A call that is open. */
export interface LinkCall {
  /** Tells the plugin that nobody waits any more, and why where the transport can. Never waits for it. */
  cancel(reason?: string): void;
}

/** One way to speak with a plugin process. What it answers is judged by nobody here; time-outs are the caller's. */
export interface PluginLink {
  /** Whether an event is answered, as a gate is; otherwise it is only told. */
  readonly answersEvents: boolean;
  /** Brings the plugin to the point where it answers. @throws AppError `plugin_refused` with cause and remedy. */
  connect(): Promise<plugin.Manifest>;
  /** Asks a gate or delivers an event. `timeoutMs` is what the caller will wait. */
  onEvent(envelope: plugin.Envelope, timeoutMs: number, done: LinkDone<plugin.Envelope>): LinkCall;
  /** Delivers an event and is answered when the plugin has handled it, whatever `answersEvents` says. */
  deliver(envelope: plugin.Envelope, timeoutMs: number, done: LinkDone<plugin.Envelope>): LinkCall;
  /** Executes a tool. */
  executeMethod(input: plugin.MethodInput, timeoutMs: number, done: LinkDone<plugin.MethodResult>): LinkCall;
  /**
   * Calls a method that does not exist, as a newer host may. Answers what is wrong about how the plugin took it; empty =
   * it refused, as it should.
   */
  callUnknown(timeoutMs: number): Promise<string>;
  /** Asks the plugin to end; settles when it answered, dropped the connection or let the time pass. */
  shutdown(timeoutMs: number): Promise<unknown>;
  /** Drops the connection and everything it had. Safe to call at any time. */
  close(): Promise<void>;
}
