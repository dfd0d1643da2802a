import type { ApprovalView, SealedDecision } from '@codedock/store';
import { afterCommit } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** A person's word on some or all calls of an approval. */
export interface DecideApprovalInput {
  readonly tenantId: string;
  readonly approvalId: string;
  /** The API key that decides. */
  readonly actor: { readonly id: string; readonly name: string };
  /** As `sealedDecisions` gives them. */
  readonly decisions: readonly SealedDecision[];
}

/**
 * Stores a decision; the last open call's queues the run. The same decision again gives the same answer. Throws
 * not_found, forbidden (the profile forbids the run's creator), approval_decided, invalid_request.
 */
export async function decideApproval(
  ports: Pick<RunPorts, 'store' | 'bus' | 'doorbell' | 'report' | 'ids'>,
  input: DecideApprovalInput,
): Promise<ApprovalView> {
  const decided = await ports.store.approvals.decide({
    ...input,
    eventIds: { decided: ports.ids.next(), stateChanged: ports.ids.next() },
  });
  await afterCommit(ports, { events: decided.events, rings: decided.ring === undefined ? [] : [decided.ring] });
  return decided.approval;
}
