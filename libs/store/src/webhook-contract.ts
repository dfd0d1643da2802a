import type { LedgerEvent, WebhookEvent } from '@codedock/domain';
import type { IdempotencyCompletion } from './idempotency-contract.js';

export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly description?: string;
  readonly events: readonly WebhookEvent[];
  readonly status: 'enabled' | 'disabled';
  readonly createdAt: string;
  readonly lastSuccessAt?: string;
  readonly lastFailureAt?: string;
  readonly disabledAt?: string;
  readonly disabledReason?: string;
}

/** One event for one webhook. */
export interface WebhookDelivery {
  readonly id: string;
  readonly eventId: string;
  readonly sessionId: string;
  readonly seq: number;
  readonly type: WebhookEvent;
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly attempts: number;
  /** Status of the last answer. */
  readonly responseStatus?: number;
  /** Why the last attempt failed. */
  readonly error?: string;
  readonly createdAt: string;
  /** While pending. */
  readonly nextAt?: string;
  readonly settledAt?: string;
}

/** A delivery taken for one attempt. */
export interface TakenDelivery {
  readonly id: string;
  readonly tenantId: string;
  readonly webhookId: string;
  /** 1, 2, 3 … */
  readonly attempt: number;
  readonly url: string;
  readonly secret: string;
  /** Absent when retention has taken it. */
  readonly event?: LedgerEvent;
}

export interface WebhookStore {
  /** The webhook is told of events from now on. `secret` is kept to sign with and never read back. */
  create(
    input: {
      tenantId: string;
      id: string;
      url: string;
      description?: string;
      events: readonly WebhookEvent[];
      secret: string;
      createdBy: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<Webhook>;
  /** Throws not_found. */
  get(tenantId: string, webhookId: string): Promise<Webhook>;
  /** Oldest first. */
  list(tenantId: string): Promise<Webhook[]>;
  /** With its deliveries. Throws not_found. */
  delete(tenantId: string, webhookId: string): Promise<void>;
  /** Newest first; `before` is the id of the last one of the former page. */
  deliveries(input: {
    tenantId: string;
    webhookId: string;
    limit: number;
    before?: string;
  }): Promise<WebhookDelivery[]>;
  /** Makes deliveries of what was committed since the last time; returns how many. */
  fanOut(): Promise<number>;
  /** Takes due deliveries for one attempt each; one that is not settled within `holdMs` is due again. */
  take(input: {
    limit: number;
    perWebhook: number;
    holdMs: number;
    except: readonly string[];
  }): Promise<readonly TakenDelivery[]>;
  /** Without `againMs` a failed delivery is given up. Returns why the webhook was disabled, if it was. */
  settle(input: {
    id: string;
    ok: boolean;
    /** True disables the webhook at once. */
    gone: boolean;
    status?: number;
    error?: string;
    againMs?: number;
  }): Promise<{ readonly disabled?: string }>;
  /** Deletes settled deliveries older than this, at most `limit`; returns how many. */
  forget(olderThanMs: number, limit: number): Promise<number>;
}
