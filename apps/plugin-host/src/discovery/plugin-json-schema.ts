import { portSpec } from '@codedock/plugin-bridge';
import { maxGateBudgetMs, type Port, ports } from '@codedock/proto';
import { z } from 'zod';

const mostConcurrentCalls = 256;

const milliseconds = (least: number, most: number) => z.int().min(least).max(most);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hexadecimal digits');
const globs = z.array(z.string().min(1)).min(1, 'an empty list would match nothing; leave it out to match everything');

function perPort<T extends z.ZodType>(schemaOf: (port: Port) => T) {
  const shape = Object.fromEntries(ports.map((port) => [port, schemaOf(port).optional()])) as Record<
    Port,
    z.ZodOptional<T>
  >;
  return z.strictObject(shape);
}

const closedOnly = z.literal('closed', {
  error: (issue) =>
    issue.input === 'open'
      ? '"open" would loosen this port; a plugin can only tighten what happens when it cannot be asked'
      : 'must be "closed"',
});

/** What plugin.json may say. The published JSON Schema is made of it. */
export const pluginJson = z.strictObject({
  $schema: z.string().optional().describe('Address of this schema, for editors.'),
  transport: z
    .enum(['grpc', 'stdio'])
    .default('grpc')
    .describe('How the plugin is spoken to: go-plugin over gRPC, or one JSON object a line on stdin and stdout.'),
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("Program and arguments. Default: the executable with the folder's name."),
  sha256: z
    .union([sha256, z.record(z.string().min(1), sha256)], {
      error: 'must be 64 lower-case hexadecimal digits, or {"<file of the folder>": digits} for several files',
    })
    .optional()
    .describe(
      'SHA-256 of the program, or of each file of the folder that "command" names. The files are copied to a private folder, checked there and executed from there.',
    ),
  autoMtls: z.boolean().default(true).describe('false for a plugin that cannot do AutoMTLS.'),
  required: z
    .boolean()
    .default(true)
    .describe('Whether the service is not ready, and matching gates fail, while the plugin never came up.'),
  mode: z
    .enum(['enforce', 'shadow'])
    .default('enforce')
    .describe('shadow: asked beside the chain, its decision is recorded and changes nothing. Implies required: false.'),
  match: z
    .strictObject({
      tenants: globs.optional(),
      agents: globs.optional(),
      modes: globs.optional(),
      tools: globs.optional(),
    })
    .optional()
    .describe('Globs (* any text, ? one character). All lists given must hold, else the plugin is not asked.'),
  failurePolicy: perPort((port) =>
    portSpec(port).failureDefault === 'closed' ? closedOnly : z.enum(['open', 'closed']),
  )
    .default({})
    .describe('Per port, what a failure of this plugin means. Can only tighten.'),
  timeoutMs: milliseconds(1, maxGateBudgetMs).optional().describe('Milliseconds the plugin gets for one question.'),
  budgetMs: perPort(() => milliseconds(1, maxGateBudgetMs))
    .default({})
    .describe('Per port, milliseconds the whole gate gets if that is more than its own 2,000.'),
  reinvoke: z
    .enum(['never', 'ifChanged'])
    .default('never')
    .describe('ifChanged: on veto ports, asked once more with the final value when a later plugin changed it.'),
  delivery: z
    .enum(['best-effort', 'durable'])
    .default('best-effort')
    .describe(
      'Of ledger events. best-effort: told while it is there, at most once. durable: each at least once and in order per session, also those of the time it was away.',
    ),
  maxInflight: z.int().min(1).max(mostConcurrentCalls).default(8).describe('Questions answered at the same time.'),
  maxToolCalls: z.int().min(1).max(mostConcurrentCalls).default(4).describe('Tools executed at the same time.'),
  restart: z
    .strictObject({
      policy: z
        .enum(['on-failure', 'never', 'always'])
        .default('on-failure')
        .describe('on-failure: not after an exit with code 0 while nothing was asked. always: then too.'),
      backoffMs: milliseconds(100, 60_000).default(500).describe('Before the first restart; doubles each time.'),
      maxBackoffMs: milliseconds(100, 600_000).default(30_000),
    })
    .prefault({})
    .describe('What happens when its process ends by itself or does not come up.'),
  limits: z
    .strictObject({
      memoryMb: z.int().min(16).optional().describe('MiB resident in all its processes together; over it is killed.'),
      processes: z.int().min(1).optional().describe('Processes, its own included; with more it is killed.'),
      openFiles: z.int().min(32).optional().describe('Open files of each of its processes; more fail with EMFILE.'),
      logBytesPerSecond: z.int().min(1_024).default(65_536).describe('Log lines beyond it are counted, not kept.'),
    })
    .prefault({}),
  env: z
    .array(
      z
        .string()
        .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is not the name of an environment variable')
        .regex(/^(?!PLUGIN_|CODEDOCK_)/, 'is reserved for the protocol and the services'),
    )
    .default([])
    .describe("Names of the host's variables it gets beside PATH, HOME, LANG and TMPDIR."),
  config: z.record(z.string(), z.unknown()).default({}).describe('Handed to the plugin as it is.'),
});

/** The JSON Schema (2020-12) of plugin.json. */
export function pluginJsonSchema(): object {
  const { $schema, ...rest } = z.toJSONSchema(pluginJson, { io: 'input', target: 'draft-2020-12' });
  return { $schema, title: 'plugin.json', description: 'What a CodeDock plugin says about itself.', ...rest };
}
