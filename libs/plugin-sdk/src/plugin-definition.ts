import type { Port } from '@codedock/proto';
import type { Host, Tool } from './host/host.js';
import type { AgentInput } from './ports/agent-input.js';
import type { AgentPreStep } from './ports/agent-pre-step.js';
import type { AgentRequest } from './ports/agent-request.js';
import type { Answer } from './ports/answer.js';
import type { LedgerNotice } from './ports/ledger-notice.js';
import type { LlmStream } from './ports/llm-stream.js';
import type { ToolPostExecute } from './ports/tool-post-execute.js';
import type { ToolPreExecute } from './ports/tool-pre-execute.js';

/** What a handler of port `P` answers; nothing = go on unchanged. */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler that only looks has no return statement.
export type HandlerAnswer<P extends Port> = Answer<P> | undefined | void;

/** A handler of port `P`. What it throws fails the question; what that means is the port's failure policy. */
export type PortHandler<P extends Port, Input> = (input: Input) => HandlerAnswer<P> | Promise<HandlerAnswer<P>>;

/** Told what happened; its answer and its errors change nothing. */
export type NoticeHandler = (notice: LedgerNotice) => unknown;

/** A plugin: what it is called and what it does. Absent handlers are never asked. */
export interface PluginDefinition {
  readonly name: string;
  /** Semantic version of the plugin. */
  readonly version: string;
  /** Changes when the plugin would decide differently; default: derived by the host from version, file and configuration. */
  readonly policyVersion?: string;
  /** Narrows what the host asks to some of the ports and events that have a handler; default all of them. */
  readonly subscriptions?: readonly string[];
  /**
   * `background`: call backs outside a question. `admin`: plugin administration. `conformance-directives`: it does what the
   * scratchpad tells it to, for tests of hosts.
   */
  readonly capabilities?: readonly ('background' | 'admin' | 'conformance-directives')[];
  /** What a failure of this plugin means at a port; may only tighten: `closed` fails the gate. */
  readonly portFailurePolicy?: Readonly<Partial<Record<Port, 'open' | 'closed'>>>;
  /** Bytes of the largest payload it takes; default 4 MiB minus framing. */
  readonly maxPayloadBytes?: number;
  /** Called once, after its tools are registered and before it is asked anything; within the start time-out of 10 s. */
  bootstrap?(host: Host): void | Promise<void>;
  readonly onAgentInput?: PortHandler<'agent/input', AgentInput>;
  readonly onAgentPreStep?: PortHandler<'agent/pre-step', AgentPreStep>;
  readonly onAgentRequest?: PortHandler<'agent/request', AgentRequest>;
  readonly onLlmStream?: PortHandler<'llm/stream', LlmStream>;
  readonly onToolPreExecute?: PortHandler<'tools/pre-execute', ToolPreExecute>;
  readonly onToolPostExecute?: PortHandler<'tools/post-execute', ToolPostExecute>;
  /** By event name, or one handler for a list of events. */
  readonly onLedgerNotify?:
    | Readonly<Record<string, NoticeHandler>>
    | { readonly events: readonly string[]; readonly handler: NoticeHandler };
  readonly tools?: readonly Tool[];
}

/** Types a plugin that lives in another file than the call of `serve`. */
export function definePlugin(definition: PluginDefinition): PluginDefinition {
  return definition;
}
