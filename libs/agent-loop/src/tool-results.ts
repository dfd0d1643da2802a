import { type ToolResult, wellFormedJson, wellFormedText } from '@codedock/domain';

/** A failed result whose text is what the model is told and what people see as the error. */
export function failedResult(text: string): ToolResult {
  const told = wellFormedText(text);
  return { success: false, output: told, error: told };
}

/** The result with text that every store accepts. */
export function repairedResult(result: ToolResult): ToolResult {
  const error = result.error === undefined ? {} : { error: wellFormedText(result.error) };
  return { success: result.success, output: wellFormedJson(result.output), ...error };
}

export const STOPPED_RESULT = failedResult('stopped');
export const WITHHELD_RESULT = failedResult('result withheld: policy could not be asked');

/** The result of a call whose request was sent and whose outcome nobody knows. */
export function unknownResult(tool: string, why: string): ToolResult {
  return failedResult(
    `The outcome of ${tool} is unknown (${why}). It may have taken effect and is not executed again: check before repeating it.`,
  );
}

/** The result of a call that a person denied, or that nobody decided in time. */
export function deniedResult(reason: string | undefined, expired: boolean): ToolResult {
  const denied = expired ? 'Denied' : 'Denied by a person';
  return failedResult(reason === undefined || reason === '' ? `${denied}.` : `${denied}: ${reason}`);
}
