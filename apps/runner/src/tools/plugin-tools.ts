import type { ToolDefinition, ToolExecution, ToolInvocation } from '@codedock/domain';

/** The plugins' side of the registry, as the bridge offers it for one run. */
export interface PluginTools {
  /** Tools of live plugins whose `match` holds for the run, in a stable order. */
  list(): readonly ToolDefinition[];
  /** Executes over the bridge; never rejects. `unknown` when the request was sent and no outcome came back. */
  execute(invocation: ToolInvocation, signal: AbortSignal): Promise<ToolExecution>;
}

/** No plugin-host is configured. */
export const NO_PLUGIN_TOOLS: PluginTools = {
  list: () => [],
  execute: async ({ tool }) => ({
    kind: 'result',
    result: { success: false, output: null, error: `The plugin of ${tool.name} is not there.` },
    source: 'host',
  }),
};
