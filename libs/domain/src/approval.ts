import type { JsonValue } from './json.js';
import type { AskReason } from './tool-call.js';

/** How far an approval reaches. Sent now: only `once`. */
export type ApprovalScope = 'once' | 'run' | 'session';
export type ApprovalStatus = 'open' | 'decided' | 'expired' | 'void';

/** One call of an approval, as the approver sees it and as it is sealed. */
export interface ApprovalCall {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: JsonValue;
  readonly digest: string;
  readonly gateVersion: string;
  readonly reasons: readonly AskReason[];
}

/** A person's word on one call. */
export type ApprovalDecision =
  | { readonly callId: string; readonly decision: 'approve' }
  | { readonly callId: string; readonly decision: 'deny'; readonly reason?: string };
