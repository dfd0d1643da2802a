import type { JsonObject, JsonValue, ToolInvocation } from '@codedock/domain';

/** What a built-in tool gave: an output, or what it tells the model went wrong. */
export type BuiltInOutcome = { readonly output: JsonValue } | { readonly error: string };

/** Executes a built-in tool. The arguments satisfy the tool's schema. */
export type BuiltInFunction = (args: JsonObject, invocation: ToolInvocation) => Promise<BuiltInOutcome>;
