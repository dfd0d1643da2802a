import {
  AppError,
  type ApprovalDecision,
  type Digest,
  jsonEqual,
  sealDigest,
  type ToolDefinition,
} from '@codedock/domain';
import type { ApprovalCallView, ApprovalView, SealedDecision } from '@codedock/store';
import type { ArgumentCheck } from './argument-check.js';

/** What decisions that are more than a yes or no are judged with. */
export interface DecisionJudge {
  /** The tool of that name as the run would find it now. */
  lookup(name: string): ToolDefinition | undefined;
  readonly arguments: ArgumentCheck;
  readonly digest: Digest;
}

/**
 * Decisions ready to be stored: edited arguments held to the tool's schema and sealed, wider scopes bound to the schema
 * the approver saw. Calls that are decided already are passed on as they are: whether it is the same word, the store
 * knows. Throws invalid_request naming `/decisions/<n>/arguments`, conflict when the tool is not (or no longer) the one
 * that was asked for.
 */
export function sealedDecisions(
  approval: ApprovalView,
  decisions: readonly ApprovalDecision[],
  judge: DecisionJudge,
): SealedDecision[] {
  const calls = new Map(approval.calls.map((call) => [call.callId, call]));
  return decisions.map((asked, index) => {
    const call = calls.get(asked.callId);
    if (call === undefined || asked.decision === 'deny') return asked;
    const decision = withoutSameArguments(asked, call);
    return call.decision === undefined ? judged(decision, call, index, judge) : decision;
  });
}

type Approve = Extract<ApprovalDecision, { decision: 'approve' }>;

/** Arguments that are those asked for are no edit. */
function withoutSameArguments(decision: Approve, call: ApprovalCallView): Approve {
  const { arguments: edited, ...plain } = decision;
  return edited === undefined || jsonEqual(edited, call.arguments) ? plain : decision;
}

function judged(decision: Approve, call: ApprovalCallView, index: number, judge: DecisionJudge): SealedDecision {
  const wider = decision.scope !== undefined && decision.scope !== 'once';
  const { arguments: edited } = decision;
  if (!wider && edited === undefined) return decision;
  const tool = judge.lookup(call.tool);
  if (tool === undefined) {
    throw new AppError(
      'conflict',
      `The tool ${call.tool} is not known now, so that neither edited arguments nor a wider scope can be judged; approve the call as it is, deny it, or wait until its plugin is back.`,
    );
  }
  const sealOf = (args: typeof call.arguments) =>
    sealDigest(judge.digest, { tool: call.tool, schemaDigest: tool.schemaDigest, arguments: args });
  if (wider && sealOf(call.arguments) !== call.digest) {
    throw new AppError(
      'conflict',
      `The tool ${call.tool} has changed since it was asked for; decide this call with the scope once.`,
    );
  }
  const scope = wider ? { schemaDigest: tool.schemaDigest } : {};
  if (edited === undefined) return { ...decision, ...scope };
  const problem = judge.arguments.problem(tool, edited);
  if (problem !== undefined) {
    const path = `/decisions/${index}/arguments`;
    throw new AppError(
      'invalid_request',
      `The edited arguments do not satisfy the schema of ${call.tool}: ${problem}`,
      {
        errors: [{ path, message: problem }],
      },
    );
  }
  return { ...decision, ...scope, digest: sealOf(edited) };
}
