import { AppError, type ApprovalDecision, type ErrorDetail } from '@codedock/domain';
import { invalid } from '../http/validation.js';
import type { DecideApproval } from './approval.schema.js';

/**
 * The decisions of a request. A field that is known but not supported is refused by name, never ignored: an approver who
 * edited arguments must not have approved the unedited ones.
 * @throws AppError `not_supported` for a scope other than `once` and for edited arguments, `invalid_request` for a call
 * named twice and for a reason beside an approval.
 */
export function decisionsOf({ decisions }: DecideApproval): ApprovalDecision[] {
  const seen = new Set<string>();
  return decisions.map((asked, index) => {
    const at = `/decisions/${index}`;
    if (asked.scope !== undefined && asked.scope !== 'once')
      throw unsupported({ path: `${at}/scope`, message: 'only once is supported' });
    if (asked.arguments !== undefined)
      throw unsupported({ path: `${at}/arguments`, message: 'edited arguments are not supported' });
    if (seen.has(asked.callId))
      throw invalid('body', [{ path: `${at}/callId`, message: 'names a call that is decided above' }]);
    seen.add(asked.callId);
    if (asked.decision === 'deny') {
      return {
        callId: asked.callId,
        decision: 'deny',
        ...(asked.reason === undefined ? {} : { reason: asked.reason }),
      };
    }
    if (asked.reason !== undefined) throw invalid('body', [{ path: `${at}/reason`, message: 'goes with deny only' }]);
    return { callId: asked.callId, decision: 'approve' };
  });
}

function unsupported(detail: ErrorDetail): AppError {
  return new AppError('not_supported', `This part of the API is not supported yet: ${detail.path} ${detail.message}.`, {
    errors: [detail],
  });
}
