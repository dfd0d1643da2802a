import { TOOL_CALL_STATES } from '@codedock/domain';
import { z } from 'zod';
import { id, instant, json, page, pageOf } from '../http/shapes.js';

export const toolCall = z
  .object({
    id,
    sessionId: id,
    runId: id,
    turnId: id,
    index: z.int(),
    name: z.string(),
    arguments: json.describe('After the changes of policies and approvers.'),
    providerCallId: z.string().optional(),
    state: z.enum(TOOL_CALL_STATES),
    effect: z.enum(['pure', 'idempotent', 'effectful']),
    executions: z.int().describe('Executions so far; all have the id of the call as their idempotency key.'),
    gated: z
      .object({
        digest: z.string(),
        gateVersion: z.string(),
        decision: z.enum(['proceed', 'ask']),
        reasons: z.array(z.object({ by: z.string(), reason: z.string() })),
      })
      .optional(),
    result: z.object({ success: z.boolean(), output: json, error: z.string().optional() }).optional(),
    denialReason: z.string().optional(),
    settledBy: z.string().optional().describe('A hook, the key that denied or resolved it, or `host`.'),
    approvalId: id.optional().describe('The newest approval that holds it.'),
    createdAt: instant.describe('When the model asked for it.'),
  })
  .meta({ id: 'ToolCall' });

export const toolCallPage = pageOf(toolCall).meta({ id: 'ToolCallPage' });

export const listToolCalls = z.strictObject({
  ...page,
  state: z.enum(['unknown']).describe('Calls whose outcome nobody knows, until a person resolves them.'),
  sessionId: id.optional(),
  runId: id.optional(),
});
export type ListToolCalls = z.infer<typeof listToolCalls>;

export const resolveToolCall = z
  .strictObject({
    outcome: z
      .enum(['happened', 'did_not', 'retry'])
      .describe('It took effect, it did not, or it shall be executed again under the same idempotency key.'),
    output: json.optional().describe('With `happened` only: what the call gave.'),
    note: z.string().min(1).max(2_000).optional().describe('Told to the model and kept in the audit.'),
  })
  .refine(({ outcome, output }) => outcome === 'happened' || output === undefined, {
    path: ['output'],
    message: 'goes with happened only',
  })
  .meta({ id: 'ResolveToolCall' });
export type ResolveToolCall = z.infer<typeof resolveToolCall>;
