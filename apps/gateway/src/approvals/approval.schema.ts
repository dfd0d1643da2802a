import { z } from 'zod';
import { id, instant, json, page, pageOf } from '../http/shapes.js';

const STATUSES = ['open', 'decided', 'expired', 'void'] as const;

export const approval = z
  .object({
    id,
    sessionId: id,
    runId: id,
    turnId: id,
    status: z.enum(STATUSES),
    calls: z.array(
      z.object({
        callId: id,
        tool: z.string(),
        arguments: json.describe('Exactly what will be executed.'),
        digest: z.string().describe('Seal over tool, schema and arguments.'),
        gateVersion: z.string().describe('Digest over the policies that were asked.'),
        reasons: z.array(z.object({ by: z.string(), reason: z.string() })),
        decision: z.enum(['approve', 'deny']).optional(),
        reason: z.string().optional(),
        decidedBy: z.string().optional(),
        decidedAt: instant.optional(),
      }),
    ),
    supersedes: id.optional(),
    createdAt: instant,
    expiresAt: instant,
    decidedAt: instant.optional(),
  })
  .meta({ id: 'Approval' });

export const approvalPage = pageOf(approval).meta({ id: 'ApprovalPage' });

export const listApprovals = z.strictObject({
  ...page,
  status: z.enum(STATUSES).optional(),
  sessionId: id.optional(),
  runId: id.optional(),
});
export type ListApprovals = z.infer<typeof listApprovals>;

const decision = z.strictObject({
  callId: id,
  decision: z.enum(['approve', 'deny']),
  reason: z.string().min(1).max(2_000).optional().describe('With deny only; the model sees it.'),
  scope: z.enum(['once', 'run', 'session']).optional().describe('Only `once` is supported.'),
  arguments: json.optional().describe('Edited arguments are not supported yet.'),
});

export const decideApproval = z
  .strictObject({ decisions: z.array(decision).min(1).max(200) })
  .meta({ id: 'DecideApproval' });
export type DecideApproval = z.infer<typeof decideApproval>;
