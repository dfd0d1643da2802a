import type { JsonObject, JsonValue } from './json.js';
import type { Message } from './message.js';
import type { ToolCall, ToolResult } from './tool-call.js';
import { wellFormedText } from './well-formed.js';

/** Of edited arguments the model is shown so much, characters of JSON. */
const SHOWN_ARGUMENTS = 2_000;

/** What the model sees of a result: its output, and beside it – or, without an output, alone – the error of a failed one. */
export function outputForModel(result: ToolResult): JsonValue {
  if (result.success || result.error === undefined || result.error === result.output) return result.output;
  if (result.output === null || result.output === '') return { error: result.error };
  return { error: result.error, output: result.output };
}

/** The output beside a note on arguments that are no longer those the model reads in its own call. */
function outputAfterEdit(result: ToolResult, edited: JsonValue): JsonValue {
  const json = JSON.stringify(edited);
  const shown =
    json.length <= SHOWN_ARGUMENTS
      ? json
      : `${wellFormedText(json.slice(0, SHOWN_ARGUMENTS))}… (${json.length} characters in all)`;
  const note = `A person changed the arguments of this call before approving it. They are now ${shown}`;
  const output = outputForModel(result);
  return output === result.output ? { note, output } : { note, ...(output as JsonObject) };
}

/**
 * The message that carries a call's result to the model. Its id is the call's: a call has one result. Where a person
 * edited the call's arguments, the output is an object that says so in `note`.
 */
export function toolMessageOf(
  call: Pick<ToolCall, 'id' | 'turnId' | 'editedArguments'>,
  result: ToolResult,
  of: { readonly sessionId: string; readonly runId: string; readonly createdAt: string },
): Message {
  return {
    id: call.id,
    sessionId: of.sessionId,
    runId: of.runId,
    turnId: call.turnId,
    role: 'tool',
    content: {
      callId: call.id,
      output:
        call.editedArguments === undefined ? outputForModel(result) : outputAfterEdit(result, call.editedArguments),
    },
    eventSeq: 0,
    createdAt: of.createdAt,
  };
}
