import type {
  ApprovalCall,
  ApprovalDecision,
  ApprovalScope,
  ApprovalStatus,
  JsonValue,
  LedgerEvent,
  Ring,
} from '@codedock/domain';

export interface ApprovalCallView extends ApprovalCall {
  readonly decision?: 'approve' | 'deny';
  /** Of an approval. */
  readonly scope?: ApprovalScope;
  /** What the approver made of the arguments; executed instead of them. */
  readonly editedArguments?: JsonValue;
  readonly editedDigest?: string;
  readonly reason?: string;
  /** Name of the API key, or `host` for an expiry. */
  readonly decidedBy?: string;
  readonly decidedAt?: string;
}

export interface ApprovalView {
  readonly id: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly status: ApprovalStatus;
  readonly calls: readonly ApprovalCallView[];
  readonly supersedes?: string;
  /** The approval that took its place because what was approved had changed. */
  readonly supersededBy?: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly remindedAt?: string;
  readonly decidedAt?: string;
}

/** A decision with what its caller has judged: edited arguments with their seal, a wider scope with the schema it covers. */
export type SealedDecision = ApprovalDecision & { readonly digest?: string; readonly schemaDigest?: string };

export interface DecideApproval {
  readonly tenantId: string;
  readonly approvalId: string;
  /** Who decides: the API key's id and name. */
  readonly actor: { readonly id: string; readonly name: string };
  readonly decisions: readonly SealedDecision[];
  readonly eventIds: { readonly decided: string; readonly stateChanged: string };
}

export interface DecidedApproval {
  readonly approval: ApprovalView;
  /** Present when this decision was the last one and queued the run. */
  readonly ring?: Ring;
  /** Empty when the same decision had been made before. */
  readonly events: readonly LedgerEvent[];
}

/** An approval that reaches beyond its call. */
export interface ApprovalGrant {
  readonly id: string;
  readonly sessionId: string;
  /** Present with the scope `run`. */
  readonly runId?: string;
  readonly approvalId: string;
  readonly callId: string;
  readonly tool: string;
  readonly scope: 'run' | 'session';
  /** Name of the API key. */
  readonly grantedBy: string;
  readonly createdAt: string;
  /** Set when the session was archived. */
  readonly revokedAt?: string;
}

export interface ApprovalStore {
  /** Throws not_found. */
  get(tenantId: string, approvalId: string): Promise<ApprovalView>;
  list(input: {
    tenantId: string;
    status?: ApprovalStatus;
    sessionId?: string;
    runId?: string;
    limit: number;
    before?: string;
  }): Promise<ApprovalView[]>;
  /** Whole decision in one transaction. Throws not_found, forbidden (creator rule), approval_decided, invalid_request. */
  decide(input: DecideApproval): Promise<DecidedApproval>;
  /** Denies what is open in an approval past its expiry; the run resumes. Undefined when there is nothing to expire. */
  expire(tenantId: string, approvalId: string): Promise<DecidedApproval | undefined>;
  /** Open approvals of whose life this share (0–1) is over and of which nobody was reminded; at most 500. */
  dueReminders(share: number): Promise<readonly { readonly tenantId: string; readonly approvalId: string }[]>;
  /** Stores the reminder, once; empty when there is nothing to remind of (any more). */
  remind(tenantId: string, approvalId: string): Promise<readonly LedgerEvent[]>;
  /** What was granted in a session, oldest first. */
  grants(tenantId: string, sessionId: string): Promise<readonly ApprovalGrant[]>;
}
