import { AppError, type JsonObject } from '@codedock/domain';
import { maxGateBudgetMs, type Port, ports } from '@codedock/proto';
import secureJson from 'secure-json-parse';
import { z } from 'zod';

const milliseconds = z.int().min(1);
const perPort = <T extends z.ZodType>(value: T) => z.partialRecord(z.enum(ports), value).default({});

const environmentName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is not the name of an environment variable')
  .refine((name) => !/^(PLUGIN_|CODEDOCK_)/.test(name), 'is reserved for the protocol and the services');

const schema = z.strictObject({
  $schema: z.string().optional(),
  transport: z.literal('grpc').default('grpc'),
  command: z.array(z.string().min(1)).min(1).optional(),
  autoMtls: z.boolean().default(true),
  required: z.boolean().default(true),
  failurePolicy: perPort(z.enum(['open', 'closed'])),
  timeoutMs: milliseconds.max(maxGateBudgetMs).optional(),
  budgetMs: perPort(milliseconds.max(maxGateBudgetMs)),
  env: z.array(environmentName).default([]),
  config: z
    .custom<JsonObject>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      'must be an object',
    )
    .default({}),
});

/** Fields of the published format that this version refuses rather than ignores. */
const notYetSupported: ReadonlySet<string> = new Set([
  'sha256',
  'mode',
  'match',
  'reinvoke',
  'delivery',
  'restart',
  'limits',
  'maxInflight',
  'maxToolCalls',
]);

/** What plugin.json says, defaults filled in. `budgetMs` and `failurePolicy` are per port; times in milliseconds. */
export interface PluginSettings {
  readonly command?: readonly string[];
  readonly autoMtls: boolean;
  readonly required: boolean;
  readonly failurePolicy: Readonly<Partial<Record<Port, 'open' | 'closed'>>>;
  readonly timeoutMs?: number;
  readonly budgetMs: Readonly<Partial<Record<Port, number>>>;
  readonly env: readonly string[];
  readonly config: JsonObject;
}

/** Settings of a plugin without plugin.json. */
export const defaultSettings: PluginSettings = parseSettings('{}');

/**
 * Reads the text of a plugin.json.
 * @throws AppError `plugin_refused` naming the field that is wrong; the caller adds which file it was.
 */
export function parseSettings(text: string): PluginSettings {
  let content: unknown;
  try {
    content = secureJson.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new AppError('plugin_refused', `it is not valid JSON (${(error as Error).message}); correct the file`);
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new AppError('plugin_refused', 'it must hold one JSON object');
  }
  for (const field of Object.keys(content)) {
    if (notYetSupported.has(field)) {
      throw new AppError('plugin_refused', `the field "${field}" is not yet supported; remove it`);
    }
  }
  if ('transport' in content && content.transport === 'stdio') {
    throw new AppError('plugin_refused', 'the transport "stdio" is not yet supported; serve the plugin over gRPC');
  }
  const parsed = schema.safeParse(content);
  if (!parsed.success) {
    throw new AppError('plugin_refused', parsed.error.issues.map(describeIssue).join('; '));
  }
  const { command, timeoutMs, $schema: _, transport: __, ...rest } = parsed.data;
  return Object.freeze({
    ...rest,
    ...(command === undefined ? {} : { command }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
}

/** Whether a file that is otherwise refused says clearly that nobody has to wait for this plugin. */
export function saysNotRequired(text: string): boolean {
  const content: unknown = secureJson.safeParse(text);
  return typeof content === 'object' && content !== null && 'required' in content && content.required === false;
}

function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') {
    const where = issue.path.length === 0 ? '' : ` in "${issue.path.join('.')}"`;
    return `unknown field ${issue.keys.map((key) => `"${key}"`).join(', ')}${where}; remove it or correct its name`;
  }
  return `"${issue.path.join('.')}": ${issue.message}`;
}
