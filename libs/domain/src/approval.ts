import type { JsonValue } from './json.js';
import type { AskReason } from './tool-call.js';

/** How far an approval may reach. */
export const APPROVAL_SCOPES = ['once', 'run', 'session'] as const;
/**
 * How far an approval reaches: this call alone, or – for the tool's own requirement, never for a hook's ask – further
 * calls of the same tool in the run or the session.
 */
export type ApprovalScope = (typeof APPROVAL_SCOPES)[number];
/** `void`: the run ended, or its arguments changed, before the decision counted. */
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

/** A person's word on one call. Edited `arguments` replace those that were asked for. `scope` absent: `once`. */
export type ApprovalDecision =
  | {
      readonly callId: string;
      readonly decision: 'approve';
      readonly scope?: ApprovalScope;
      readonly arguments?: JsonValue;
    }
  | { readonly callId: string; readonly decision: 'deny'; readonly reason?: string };

/** An approver's leave for further calls of a tool, as long as its schema stays the one he saw. */
export interface ToolGrant {
  readonly tool: string;
  readonly schemaDigest: string;
}
