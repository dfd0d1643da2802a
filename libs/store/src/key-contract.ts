import type { Scope } from '@codedock/domain';
import type { IdempotencyCompletion } from './idempotency-contract.js';

export interface ApiKey {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: string;
  readonly expiresAt?: string;
  readonly rotatedAt?: string;
  /** Until then the secret from before the last rotation is good too; only while it is. */
  readonly formerUntil?: string;
  readonly revokedAt?: string;
}

/** A live key, and what its tenant may do. */
export interface AuthenticKey extends ApiKey {
  readonly tenantName: string;
  /** Requests that each gateway answers the tenant a second; absent = the installation's default. */
  readonly requestsPerSecond?: number;
}

export interface KeyStore {
  /** `hash` is the hex digest of the key; the key itself is never stored. Audited. Throws conflict when the tenant has a live key of that name. */
  create(
    input: {
      id: string;
      tenantId: string;
      name: string;
      hash: string;
      scopes: readonly Scope[];
      expiresAt?: string;
      createdBy?: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<ApiKey>;
  /**
   * Gives the key another secret; the former one is good for `graceMs` more, and no other. Audited. Throws not_found,
   * conflict (revoked).
   */
  rotate(
    input: {
      tenantId: string;
      keyId: string;
      hash: string;
      graceMs: number;
      expiresAt?: string;
      actor: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<ApiKey>;
  list(tenantId: string): Promise<ApiKey[]>;
  /** Idempotent. Throws not_found. */
  revoke(tenantId: string, keyId: string, actor: string): Promise<ApiKey>;
  /** The live key of a hash; undefined when unknown, expired or revoked. */
  authenticate(hash: string): Promise<AuthenticKey | undefined>;
}
