import type { JsonObject, JsonValue } from '@codedock/domain';

/** Completes an idempotency claim in the transaction that creates something. */
export interface IdempotencyCompletion {
  readonly route: string;
  readonly key: string;
  readonly ownerToken: string;
  readonly status: number;
  /**
   * Stored as the response's body, together with what was created: `runs.accept` sets its member `run` to the run's
   * view, creating a session or an agent profile lays what was created over it.
   */
  readonly body: JsonObject;
}

export interface StoredResponse {
  readonly status: number;
  readonly body: JsonValue;
}

export type Claim =
  | { readonly kind: 'claimed' }
  | { readonly kind: 'in_progress'; readonly retryAfterMs: number }
  | { readonly kind: 'replay'; readonly response: StoredResponse }
  | { readonly kind: 'mismatch' };

export interface IdempotencyStore {
  /** Claims a key for `ttlMs`; an expired claim, or an expired response, is taken over. */
  claim(input: {
    tenantId: string;
    route: string;
    key: string;
    bodyDigest: string;
    ownerToken: string;
    ttlMs: number;
  }): Promise<Claim>;
  /** Frees a claim that created nothing. */
  release(input: { tenantId: string; route: string; key: string; ownerToken: string }): Promise<void>;
  /** Stores a response for 24 h, where nothing else is written (a handled input). Throws idempotency_in_progress when the claim was lost. */
  complete(input: {
    tenantId: string;
    route: string;
    key: string;
    ownerToken: string;
    response: StoredResponse;
  }): Promise<void>;
}
