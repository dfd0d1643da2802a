import type { plugin } from '@codedock/proto';
import type { Tool } from '../host/host.js';

/** A tool as it is registered. */
export function methodOf(tool: Tool): plugin.Method {
  return {
    name: tool.name,
    prompt: tool.description,
    parametersSchema: Buffer.from(JSON.stringify(tool.parametersSchema)),
    capabilities: [],
    requiresApproval: tool.requiresApproval,
    effectClass: tool.effect,
    timeoutMs: tool.timeoutMs,
  };
}
