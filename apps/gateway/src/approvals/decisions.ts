import type { ApprovalDecision } from '@codedock/domain';
import { defined } from '../http/shapes.js';
import { invalid } from '../http/validation.js';
import type { DecideApproval } from './approval.schema.js';

/**
 * The decisions of a request. A field that does not go with the decision is refused by name, never ignored.
 * @throws AppError `invalid_request` for a call named twice, a reason beside an approval, scope or arguments beside a denial.
 */
export function decisionsOf({ decisions }: DecideApproval): ApprovalDecision[] {
  const seen = new Set<string>();
  return decisions.map(({ callId, decision, reason, scope, arguments: edited }, index) => {
    const refuse = (field: string, message: string) =>
      invalid('body', [{ path: `/decisions/${index}/${field}`, message }]);
    if (seen.has(callId)) throw refuse('callId', 'names a call that is decided above');
    seen.add(callId);
    if (decision === 'approve') {
      if (reason !== undefined) throw refuse('reason', 'goes with deny only');
      return { callId, decision, ...defined({ scope, arguments: edited }) };
    }
    if (scope !== undefined) throw refuse('scope', 'goes with approve only');
    if (edited !== undefined) throw refuse('arguments', 'goes with approve only');
    return { callId, decision, ...defined({ reason }) };
  });
}
