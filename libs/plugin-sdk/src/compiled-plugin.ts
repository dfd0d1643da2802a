import { isPort, type Port, plugin } from '@codedock/proto';
import type { Tool } from './host/host.js';
import type { NoticeHandler, PluginDefinition } from './plugin-definition.js';
import { AgentInput } from './ports/agent-input.js';
import { AgentPreStep } from './ports/agent-pre-step.js';
import { AgentRequest } from './ports/agent-request.js';
import { LlmStream } from './ports/llm-stream.js';
import type { PortInput, Question } from './ports/port-input.js';
import { ToolPostExecute } from './ports/tool-post-execute.js';
import { ToolPreExecute } from './ports/tool-pre-execute.js';
import { protocolMajor, sdkVersion } from './version.js';

type Ask = (question: Question) => unknown;

/** A definition made ready to be asked. */
export interface CompiledPlugin {
  readonly definition: PluginDefinition;
  readonly ports: ReadonlyMap<string, Ask>;
  readonly notices: ReadonlyMap<string, NoticeHandler>;
  readonly tools: Map<string, Tool>;
  readonly manifest: plugin.Manifest;
}

// A handler under a misspelt name would never be asked, and a policy that is never asked looks like one that agrees.
const members: Readonly<Record<keyof PluginDefinition, true>> = {
  name: true,
  version: true,
  policyVersion: true,
  subscriptions: true,
  capabilities: true,
  portFailurePolicy: true,
  maxPayloadBytes: true,
  bootstrap: true,
  onAgentInput: true,
  onAgentPreStep: true,
  onAgentRequest: true,
  onLlmStream: true,
  onToolPreExecute: true,
  onToolPostExecute: true,
  onLedgerNotify: true,
  tools: true,
};

/** Reads a definition. @throws TypeError saying what in it contradicts itself. */
export function compilePlugin(definition: PluginDefinition): CompiledPlugin {
  for (const member of Object.keys(definition)) {
    if (!Object.hasOwn(members, member)) throw new TypeError(`a plugin has no member "${member}"; correct its name`);
  }
  for (const member of ['name', 'version'] as const) {
    if (typeof definition[member] !== 'string' || definition[member] === '') {
      throw new TypeError(`a plugin needs a ${member}`);
    }
  }
  const ports = portHandlers(definition);
  const notices = noticeHandlers(definition);
  const tools = new Map<string, Tool>();
  for (const tool of definition.tools ?? []) {
    if (tools.has(tool.name)) throw new TypeError(`the plugin defines the tool "${tool.name}" twice`);
    tools.set(tool.name, tool);
  }
  return { definition, ports, notices, tools, manifest: manifestOf(definition, ports, notices) };
}

function portHandlers(definition: PluginDefinition): Map<string, Ask> {
  const handlers = new Map<string, Ask>();
  const add = <Input extends PortInput>(
    port: Port,
    input: new (question: Question) => Input,
    handler?: (input: Input) => unknown,
  ) => {
    if (handler !== undefined) handlers.set(port, (question) => handler.call(definition, new input(question)));
  };
  add('agent/input', AgentInput, definition.onAgentInput);
  add('agent/pre-step', AgentPreStep, definition.onAgentPreStep);
  add('agent/request', AgentRequest, definition.onAgentRequest);
  add('llm/stream', LlmStream, definition.onLlmStream);
  add('tools/pre-execute', ToolPreExecute, definition.onToolPreExecute);
  add('tools/post-execute', ToolPostExecute, definition.onToolPostExecute);
  return handlers;
}

function noticeHandlers({ onLedgerNotify }: PluginDefinition): Map<string, NoticeHandler> {
  if (onLedgerNotify === undefined) return new Map();
  const { events, handler } = onLedgerNotify as { events?: unknown; handler?: unknown };
  const handlers: Map<string, NoticeHandler> = Array.isArray(events)
    ? new Map(events.map((event) => [event as string, handler as NoticeHandler]))
    : new Map(Object.entries(onLedgerNotify as Record<string, NoticeHandler>));
  for (const [event, listener] of handlers) {
    if (isPort(event)) throw new TypeError(`onLedgerNotify names the port "${event}"; use the handler of that port`);
    if (typeof listener !== 'function') throw new TypeError(`onLedgerNotify has no function for "${event}"`);
  }
  return handlers;
}

function manifestOf(
  definition: PluginDefinition,
  ports: ReadonlyMap<string, Ask>,
  notices: ReadonlyMap<string, NoticeHandler>,
): plugin.Manifest {
  const handled = [...ports.keys(), ...notices.keys()];
  const subscriptions = definition.subscriptions ?? handled;
  for (const name of subscriptions) {
    if (!handled.includes(name)) throw new TypeError(`the plugin subscribes to "${name}" and has no handler for it`);
  }
  return plugin.Manifest.create({
    name: definition.name,
    version: definition.version,
    policyVersion: definition.policyVersion ?? '',
    subscriptions: [...subscriptions],
    sdkVersion,
    protocolMajor,
    capabilities: [...(definition.capabilities ?? [])],
    portFailurePolicy: { ...definition.portFailurePolicy },
    maxPayloadBytes: definition.maxPayloadBytes ?? 0,
  });
}
