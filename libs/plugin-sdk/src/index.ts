/** What a CodeDock plugin is written with. Import it before anything that prints. */

export { config } from './config/config.js';
export type {
  CallContext,
  EffectClass,
  Host,
  JsonSchema,
  MemoryScope,
  SessionAddress,
  Tool,
  ToolExecution,
  ToolOutput,
} from './host/host.js';
export { HostCallError } from './host/host-call-error.js';
export type { JsonObject, JsonValue } from './json.js';
export {
  definePlugin,
  type HandlerAnswer,
  type NoticeHandler,
  type PluginDefinition,
  type PortHandler,
} from './plugin-definition.js';
export { AgentInput, type AgentInputChanges } from './ports/agent-input.js';
export { AgentPreStep, type AgentPreStepChanges } from './ports/agent-pre-step.js';
export { AgentRequest, type AgentRequestChanges } from './ports/agent-request.js';
export type { Answer } from './ports/answer.js';
export type { LedgerNotice } from './ports/ledger-notice.js';
export { LlmStream, type LlmStreamChanges } from './ports/llm-stream.js';
export { hiddenText, type Message, type MessageCall } from './ports/message.js';
export type { ToolCall, ToolResult } from './ports/tool-call.js';
export { ToolPostExecute, type ToolPostExecuteChanges } from './ports/tool-post-execute.js';
export { ToolPreExecute, type ToolPreExecuteChanges } from './ports/tool-pre-execute.js';
export type { Principal } from './principal.js';
export type { Scratchpad } from './scratchpad.js';
export { type LogFunction, type LogLevel, log } from './serve/log.js';
export { serve } from './serve/serve.js';
export type { StandardSchema } from './standard-schema.js';
export type { TraceHeaders } from './telemetry/span-writer.js';
export { traceHeaders } from './telemetry/trace-context.js';
export { type ArgumentsOf, defineTool, type ToolSpec } from './tools/define-tool.js';
export { sdkVersion } from './version.js';
