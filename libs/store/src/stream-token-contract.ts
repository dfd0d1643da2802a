import type { Scope } from '@codedock/domain';
import type { IdempotencyCompletion } from './idempotency-contract.js';

/** Whose stream token it is, as the API key it acts for. */
export interface StreamTokenOwner {
  readonly tenantId: string;
  readonly keyId: string;
  readonly keyName: string;
  readonly scopes: readonly Scope[];
  /** Absent = the installation's default, as for the key. */
  readonly requestsPerSecond?: number;
}

/** Tokens with which a browser follows one session or run. Only hashes are stored. */
export interface StreamTokenStore {
  /** Without `runId` for the whole session and its runs. Returns when it expires. Throws not_found. */
  create(
    input: {
      tenantId: string;
      keyId: string;
      hash: string;
      sessionId: string;
      runId?: string;
      ttlMs: number;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<string>;
  /** The owner of a live token that is good for this session or run; its key is live too. */
  authenticate(hash: string, target: { sessionId?: string; runId?: string }): Promise<StreamTokenOwner | undefined>;
  /** Whether the key a token acts for is neither revoked nor expired. */
  keyIsLive(tenantId: string, keyId: string): Promise<boolean>;
}
