import type { JsonValue } from './json.js';
import type { Message } from './message.js';
import type { ToolCall, ToolResult } from './tool-call.js';

/** What the model sees of a result: its output, and beside it – or, without an output, alone – the error of a failed one. */
export function outputForModel(result: ToolResult): JsonValue {
  if (result.success || result.error === undefined || result.error === result.output) return result.output;
  if (result.output === null || result.output === '') return { error: result.error };
  return { error: result.error, output: result.output };
}

/** The message that carries a call's result to the model. Its id is the call's: a call has one result. */
export function toolMessageOf(
  call: Pick<ToolCall, 'id' | 'turnId'>,
  result: ToolResult,
  of: { readonly sessionId: string; readonly runId: string; readonly createdAt: string },
): Message {
  return {
    id: call.id,
    sessionId: of.sessionId,
    runId: of.runId,
    turnId: call.turnId,
    role: 'tool',
    content: { callId: call.id, output: outputForModel(result) },
    eventSeq: 0,
    createdAt: of.createdAt,
  };
}
