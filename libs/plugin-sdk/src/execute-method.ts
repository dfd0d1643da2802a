import type { plugin } from '@codedock/proto';
import type { CompiledPlugin } from './compiled-plugin.js';
import type { IncomingCall } from './incoming-call.js';
import { readValue } from './json.js';
import { readPrincipal } from './principal.js';

const noBytes = Buffer.alloc(0);

/** Executes a tool. What the tool throws is a failed result. Undefined when the plugin has no tool of that name. */
export async function executeMethod(
  compiled: CompiledPlugin,
  input: plugin.MethodInput,
  call: IncomingCall,
): Promise<plugin.MethodResult | undefined> {
  const tool = compiled.tools.get(input.name);
  if (tool === undefined) return undefined;
  try {
    const args = input.arguments.length === 0 ? {} : readValue(input.arguments, 'the arguments');
    const output = await tool.run(args, {
      sessionId: input.sessionId,
      runId: input.runId,
      turnId: input.turnId,
      principal: readPrincipal(input.principal),
      signal: call.signal,
      budgetMs: call.timeLeftMs,
      host: call.host,
      callId: input.callId,
      idempotencyKey: input.idempotencyKey || input.callId,
      attempt: input.attempt || 1,
    });
    return { success: true, output: output === undefined ? noBytes : Buffer.from(JSON.stringify(output)), error: '' };
  } catch (error) {
    return { success: false, output: noBytes, error: error instanceof Error ? error.message : String(error) };
  }
}
