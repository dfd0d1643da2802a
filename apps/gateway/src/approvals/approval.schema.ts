import { APPROVAL_SCOPES } from '@codedock/domain';
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
        arguments: json.describe('What will be executed unless the approver edits it.'),
        digest: z.string().describe('Seal over tool, schema and arguments.'),
        gateVersion: z.string().describe('Digest over the policies that were asked.'),
        reasons: z.array(z.object({ by: z.string(), reason: z.string() })),
        decision: z.enum(['approve', 'deny']).optional(),
        scope: z.enum(APPROVAL_SCOPES).optional(),
        editedArguments: json.optional().describe('What the approver made of the arguments; executed instead.'),
        editedDigest: z.string().optional().describe('Seal over the edited arguments.'),
        reason: z.string().optional(),
        decidedBy: z.string().optional(),
        decidedAt: instant.optional(),
      }),
    ),
    supersedes: id.optional().describe('The approval this one replaces: what it covered has changed.'),
    supersededBy: id.optional(),
    createdAt: instant,
    expiresAt: instant,
    remindedAt: instant.optional(),
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
  scope: z
    .enum(APPROVAL_SCOPES)
    .optional()
    .describe(
      'With approve only; default `once`. `run` and `session`: the tool’s own requirement is met for further calls of it, a hook’s ask never.',
    ),
  arguments: json
    .optional()
    .describe(
      'With approve only: arguments to execute instead, valid by the tool’s schema. The gate is asked about them.',
    ),
});

export const decideApproval = z
  .strictObject({ decisions: z.array(decision).min(1).max(200) })
  .meta({ id: 'DecideApproval' });
export type DecideApproval = z.infer<typeof decideApproval>;

export const grantList = z
  .object({
    items: z.array(
      z.object({
        id,
        sessionId: id,
        runId: id.optional().describe('With the scope `run`.'),
        approvalId: id,
        callId: id,
        tool: z.string(),
        scope: z.enum(['run', 'session']),
        grantedBy: z.string(),
        createdAt: instant,
        revokedAt: instant.optional().describe('When the session was archived.'),
      }),
    ),
  })
  .meta({ id: 'ApprovalGrantList' });
