import {
  BUILT_IN_TOOLS,
  type Digest,
  digestOf,
  isJsonObject,
  offeredTools,
  type RunConfig,
  type ToolDefinition,
  type ToolExecution,
  type ToolInvocation,
  type Tools,
} from '@codedock/domain';
import { ArgumentCheck } from '@codedock/runs';
import type { MemoryStore } from '@codedock/store';
import type { BuiltInFunction } from './builtin/builtin-tool.js';
import { memoryTools } from './builtin/memory.js';
import { ping } from './builtin/ping.js';
import type { PluginTools } from './plugin-tools.js';
import { timeLimited } from './time-limited.js';

/** A tool that runs in this process. */
export interface LocalTool {
  readonly definition: ToolDefinition;
  readonly call: BuiltInFunction;
}

/** The tools of this process, and how to make a run's registry from them. */
export interface ToolRegistry {
  /**
   * The tools of one run: what its profile names of the local ones, and what plugins offer it now, as far as active.
   * `activeTools` reads the names set for its session; without it all are.
   */
  forRun(config: RunConfig, plugins: PluginTools, activeTools?: () => Promise<readonly string[] | undefined>): Tools;
}

/** Opens the registry with the built-in tools and the given further ones of this process. */
export function openToolRegistry(options: {
  readonly digest: Digest;
  readonly memory: MemoryStore;
  readonly extra?: readonly LocalTool[];
}): ToolRegistry {
  const functions: Readonly<Record<string, BuiltInFunction>> = { ping, ...memoryTools(options.memory) };
  const local = new Map<string, LocalTool>();
  for (const tool of BUILT_IN_TOOLS) {
    const call = functions[tool.name];
    if (call === undefined) throw new RangeError(`the built-in tool ${tool.name} has no implementation`);
    local.set(tool.name, { definition: { ...tool, schemaDigest: digestOf(options.digest, tool.parameters) }, call });
  }
  for (const tool of options.extra ?? []) local.set(tool.definition.name, tool);
  const arguments_ = new ArgumentCheck();

  return {
    forRun(config, plugins, activeTools) {
      // A plugin never takes the name of a tool of this process.
      const ofPlugin = (name: string) => plugins.list().find((tool) => tool.name === name);
      const lookup = (name: string) => local.get(name)?.definition ?? ofPlugin(name);
      return {
        async visible() {
          // What is active cuts tools of plugins only: without one, there is nothing to look up.
          const active = plugins.list().length === 0 ? undefined : await activeTools?.();
          return offeredTools({
            config,
            own: (name) => local.get(name)?.definition,
            active,
            plugins: plugins.list(),
          });
        },
        lookup,
        validate: (tool, args) => arguments_.problem(tool, args),
        execute(invocation, signal) {
          const own = local.get(invocation.tool.name);
          if (own === undefined) return plugins.execute(invocation, signal);
          return timeLimited(invocation.tool.timeoutMs, signal, () => called(own.call, invocation));
        },
      };
    },
  };
}

async function called(call: BuiltInFunction, invocation: ToolInvocation): Promise<ToolExecution> {
  const args = isJsonObject(invocation.arguments) ? invocation.arguments : {};
  try {
    const outcome = await call(args, invocation);
    const result =
      'error' in outcome
        ? { success: false, output: null, error: outcome.error }
        : { success: true, output: outcome.output };
    return { kind: 'result', result, source: 'tool' };
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'it broke';
    return {
      kind: 'result',
      result: { success: false, output: null, error: `${invocation.tool.name} failed: ${reason}` },
      source: 'tool',
    };
  }
}
