import type { JsonValue, ToolCall, ToolDefinition } from '@codedock/domain';
import type { Dispatch } from './dispatch.js';

/** What the checks of a call found: the tool, or why the model's call fails. */
export type CheckedCall =
  | { readonly tool: ToolDefinition; readonly problem?: undefined }
  | { readonly tool?: undefined; readonly problem: string };

/** Lookup, validation and permission of a call with these arguments, in this order. */
export function checkedCall(dispatch: Dispatch, call: ToolCall, args: JsonValue): CheckedCall {
  const { tools } = dispatch.attempt.ports;
  const tool = tools.lookup(call.name);
  if (tool === undefined) return { problem: unknownTool(dispatch, call.name) };
  const invalid = notJson(args) ?? tools.validate(tool, args);
  if (invalid !== undefined) return { problem: `The arguments of ${call.name} are invalid: ${invalid}` };
  const forbidden = notPermitted(dispatch, call.name);
  return forbidden === undefined ? { tool } : { problem: forbidden };
}

/** Permission: the tool was offered in this model call and the profile does not deny it. */
function notPermitted({ attempt, offered }: Dispatch, name: string): string | undefined {
  if (attempt.snapshot.config.deniedTools.includes(name)) return `The tool ${name} is denied by the agent's profile.`;
  return offered.has(name) ? undefined : `The tool ${name} was not offered in this turn.`;
}

function unknownTool({ offered }: Dispatch, name: string): string {
  const names = [...offered];
  return `There is no tool ${JSON.stringify(name)}. ${names.length === 0 ? 'No tools are offered.' : `Offered: ${names.join(', ')}.`}`;
}

/** Arguments are text only where the model's were not JSON; every tool takes an object. */
function notJson(args: JsonValue): string | undefined {
  if (typeof args !== 'string') return undefined;
  try {
    JSON.parse(args);
    return undefined;
  } catch (error) {
    return `they are not valid JSON (${error instanceof Error ? error.message : 'unreadable'}).`;
  }
}
