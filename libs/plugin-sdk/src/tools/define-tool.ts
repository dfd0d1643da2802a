import type { EffectClass, JsonSchema, Tool, ToolExecution, ToolOutput } from '../host/host.js';
import type { JsonObject, JsonValue } from '../json.js';
import { describeIssues, isStandardSchema, type StandardSchema } from '../standard-schema.js';

/** What the arguments of a tool look like to its code. */
export type ArgumentsOf<P> = P extends StandardSchema<infer Output> ? Output : JsonObject;

/** What `defineTool` takes. */
export interface ToolSpec<P extends JsonSchema | StandardSchema> {
  /** 1 to 64 letters, digits, `_` or `-`. */
  readonly name: string;
  /** For the model; at most 8,192 characters. */
  readonly description: string;
  /** JSON Schema of the arguments, or a schema of zod 4.2 or newer. */
  readonly parameters: P;
  /** A person decides before each execution. */
  readonly requiresApproval?: boolean;
  /** Default `effectful`: executed at most once, never retried. */
  readonly effect?: EffectClass;
  /** Milliseconds for one execution; default 60,000. */
  readonly timeoutMs?: number;
  /**
   * Executes. What it answers becomes the result (JSON); what it throws, a failed result with the error's message. Ends
   * soon after `signal` is aborted.
   */
  execute(args: ArgumentsOf<P>, call: ToolExecution): ToolOutput | Promise<ToolOutput>;
}

const namePattern = /^[a-zA-Z0-9_-]{1,64}$/;

/** Makes a tool the model can call. @throws TypeError when the name or the schema is of no use. */
export function defineTool<const P extends JsonSchema | StandardSchema>(spec: ToolSpec<P>): Tool {
  if (!namePattern.test(spec.name)) {
    throw new TypeError(`"${spec.name}" is no tool name: 1 to 64 letters, digits, "_" or "-"`);
  }
  const { parameters } = spec;
  return {
    name: spec.name,
    description: spec.description,
    parametersSchema: isStandardSchema(parameters) ? describeSchema(spec.name, parameters) : parameters,
    requiresApproval: spec.requiresApproval ?? false,
    effect: spec.effect ?? 'effectful',
    timeoutMs: spec.timeoutMs ?? 0,
    async run(args, call) {
      const checked = isStandardSchema(parameters) ? await parse(parameters, args) : args;
      return spec.execute(checked as ArgumentsOf<P>, call);
    },
  };
}

function describeSchema(tool: string, schema: StandardSchema): JsonSchema {
  const { jsonSchema, vendor } = schema['~standard'];
  if (jsonSchema === undefined) {
    throw new TypeError(
      `the parameters of "${tool}" cannot be told to the model: this version of ${vendor} does not write JSON Schema; update it, or pass JSON Schema`,
    );
  }
  return jsonSchema.input({ target: 'draft-2020-12' });
}

async function parse(schema: StandardSchema, args: JsonValue): Promise<unknown> {
  const result = await schema['~standard'].validate(args);
  if (result.issues !== undefined) throw new Error(`invalid arguments: ${describeIssues(result.issues)}`);
  return result.value;
}
