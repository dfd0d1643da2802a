import { type AgentProfile, DEFAULT_CONTEXT_POLICY, DEFAULT_CONTEXT_WINDOW, type JsonObject } from '@codedock/domain';
import { z } from 'zod';
import { json } from '../http/shapes.js';

const name = z
  .string()
  .regex(/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$/)
  .describe('Letters, digits, `.`, `_`, `-`; at most 64.');
const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/);
const milliseconds = z
  .int()
  .min(1)
  .max(7 * 24 * 3_600_000);

const model = z.strictObject({
  provider: z.enum(['fake', 'openai']),
  name: z.string().min(1).max(200),
  options: z.record(z.string(), json).optional() as unknown as z.ZodOptional<z.ZodType<JsonObject>>,
  maxOutputTokens: z.int().min(1).optional(),
  contextWindow: z
    .int()
    .min(1_000)
    .max(100_000_000)
    .optional()
    .describe(`Tokens that context and reply may have together; ${DEFAULT_CONTEXT_WINDOW} when absent.`),
});

const mode = z.strictObject({
  systemPrompt: z.string().max(200_000).optional(),
  model: model.optional(),
  tools: z.array(toolName).optional(),
  deniedTools: z.array(toolName).optional(),
});

const limits = z.strictObject({
  maxTurns: z.int().min(1).max(1_000).default(50),
  maxToolCalls: z.int().min(0).max(10_000).default(200),
  maxTokens: z.int().min(1).optional(),
  wallTimeMs: milliseconds.default(30 * 60_000),
  maxParallelTools: z.int().min(1).max(64).default(4),
});

const context = z.strictObject({
  compactAtPercent: z
    .int()
    .min(10)
    .max(100)
    .default(DEFAULT_CONTEXT_POLICY.compactAtPercent)
    .describe("Per cent of the model's window at which older messages are summarised."),
  keepRecentPercent: z
    .int()
    .min(1)
    .max(90)
    .default(DEFAULT_CONTEXT_POLICY.keepRecentPercent)
    .describe('Per cent of the window that the newest messages, kept as they are, may take.'),
});

const retry = z.strictObject({
  maxAttempts: z.int().min(1).max(20).default(3),
  baseDelayMs: z.int().min(0).max(60_000).default(250),
  maxDelayMs: z.int().min(0).max(600_000).default(10_000),
});

/** One agent profile, as a profiles file writes it and the API shows it. */
export const agentProfile = z
  .strictObject({
    name,
    description: z.string().max(2_000).optional(),
    systemPrompt: z.string().max(200_000).default(''),
    model,
    tools: z.array(toolName).default([]).describe('Built-in tools offered to the model; live plugin tools join them.'),
    deniedTools: z.array(toolName).default([]).describe('Never offered, never executed.'),
    approvalMode: z.enum(['manual', 'auto', 'never']).default('manual'),
    creatorMayApprove: z.boolean().default(true),
    limits: limits.prefault({}),
    context: context.prefault({}),
    retry: retry.prefault({}),
    holdDeltas: z.boolean().default(false),
    modes: z.record(z.string().min(1).max(64), mode).default({}),
  })
  .meta({ id: 'Agent' });

/** A profiles file: `{agents: [...]}`, names unique. */
export const profilesFile = z
  .strictObject({ agents: z.array(agentProfile).min(1).max(1_000) })
  .refine(({ agents }) => new Set(agents.map((agent) => agent.name)).size === agents.length, {
    path: ['agents'],
    message: 'two agents have the same name',
  });

/** A parsed profile; its type is the domain's. */
export function asProfile(parsed: z.infer<typeof agentProfile>): AgentProfile {
  return parsed as AgentProfile;
}
