import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { defineTool, type JsonObject, type JsonValue, type Tool, type ToolExecution } from '@codedock/plugin-sdk';
import type { TestTool } from './mode.js';

/** A tool that leaves a trace of each execution and then does what it is told. */
export function testTool(spec: TestTool): Tool {
  return defineTool({
    name: spec.name,
    description: `Test tool ${spec.name}.`,
    parameters: spec.parameters ?? { type: 'object' },
    ...(spec.requiresApproval === undefined ? {} : { requiresApproval: spec.requiresApproval }),
    ...(spec.effect === undefined ? {} : { effect: spec.effect }),
    ...(spec.timeoutMs === undefined ? {} : { timeoutMs: spec.timeoutMs }),
    async execute(args: JsonObject, call: ToolExecution): Promise<JsonValue> {
      const hadEffect = leaveTrace(spec, args, call);
      if (spec.outcome === 'crash' || (spec.outcome === 'crash-once' && !hadEffect))
        process.kill(process.pid, 'SIGKILL');
      if (spec.outcome === 'hang')
        await new Promise((_, reject) => call.signal.addEventListener('abort', () => reject(new Error('cancelled'))));
      if (spec.delayMs !== undefined) await delay(spec.delayMs);
      if (spec.outcome === 'fail') throw new Error(`${spec.name} failed as told`);
      return spec.result ?? { ok: true, args };
    },
  });
}

// Answers whether this call had an effect before.
function leaveTrace(
  { name, effectFile }: TestTool,
  args: JsonObject,
  { callId, idempotencyKey, attempt }: ToolExecution,
): boolean {
  if (effectFile === undefined) return false;
  const before = existsSync(effectFile) ? readFileSync(effectFile, 'utf8') : '';
  appendFileSync(effectFile, `${JSON.stringify({ tool: name, callId, idempotencyKey, attempt, args })}\n`);
  return before.includes(JSON.stringify(idempotencyKey));
}
