import type { JsonValue, ToolDefinition, ToolExecution, ToolInvocation, Tools } from '@codedock/domain';

/** A tool of a test: what it is and what it does. */
export interface TestTool extends Partial<ToolDefinition> {
  readonly name: string;
  /** Undefined when the arguments are fine. */
  readonly accepts?: (args: JsonValue) => string | undefined;
  readonly run?: (invocation: ToolInvocation, signal: AbortSignal) => ToolExecution | Promise<ToolExecution>;
}

/** A successful execution with this output. */
export function done(output: JsonValue = 'ok'): ToolExecution {
  return { kind: 'result', result: { success: true, output }, source: 'tool' };
}

/** A failed execution. */
export function failed(error = 'broken', source: 'tool' | 'host' = 'tool'): ToolExecution {
  return { kind: 'result', result: { success: false, output: null, error }, source };
}

/** Tools of a test; every execution is a line of the journal. */
export class MemoryTools implements Tools {
  readonly invocations: ToolInvocation[] = [];
  private tools: readonly TestTool[];

  constructor(
    tools: readonly TestTool[],
    private readonly journal: string[],
  ) {
    this.tools = tools;
  }

  /** From now on these are the tools. */
  replace(tools: readonly TestTool[]): void {
    this.tools = tools;
  }

  async visible(): Promise<readonly ToolDefinition[]> {
    return this.tools.map(definitionOf);
  }

  lookup(name: string): ToolDefinition | undefined {
    const tool = this.find(name);
    return tool === undefined ? undefined : definitionOf(tool);
  }

  validate(tool: ToolDefinition, args: JsonValue): string | undefined {
    if (typeof args !== 'object' || args === null || Array.isArray(args)) return '/ must be an object';
    return this.find(tool.name)?.accepts?.(args);
  }

  async execute(invocation: ToolInvocation, signal: AbortSignal): Promise<ToolExecution> {
    this.invocations.push(invocation);
    this.journal.push(`execute ${invocation.tool.name} ${invocation.n} ${JSON.stringify(invocation.arguments)}`);
    return (await this.find(invocation.tool.name)?.run?.(invocation, signal)) ?? done();
  }

  private find(name: string): TestTool | undefined {
    return this.tools.find((tool) => tool.name === name);
  }
}

function definitionOf({ accepts: _, run: __, ...tool }: TestTool): ToolDefinition {
  return {
    description: tool.name,
    parameters: { type: 'object' },
    requiresApproval: false,
    effect: 'effectful',
    timeoutMs: 1000,
    schemaDigest: `schema of ${tool.name}`,
    ...tool,
  };
}
