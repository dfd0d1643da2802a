import type { JsonObject, Message, Usage } from '@codedock/domain';
import type { IdempotencyCompletion } from './idempotency-contract.js';
import type { Appended } from './ledger-contract.js';

export interface Session {
  readonly id: string;
  readonly title?: string;
  /** End user on whose behalf the session is held. */
  readonly user?: string;
  readonly metadata: JsonObject;
  readonly status: 'open' | 'archived';
  readonly lastSeq: number;
  /** Events up to this one are not kept any more; 0 when all are. */
  readonly prunedSeq: number;
  /** Tokens of completions that belong to no run: those of plugins asked about an input. */
  readonly usage: Usage;
  readonly createdAt: string;
  readonly archivedAt?: string;
}

export interface SessionStore {
  create(
    input: {
      tenantId: string;
      id: string;
      user?: string;
      title?: string;
      metadata: JsonObject;
      createdBy: string;
    },
    idempotency?: IdempotencyCompletion,
  ): Promise<Session>;
  /** Throws not_found. */
  get(tenantId: string, sessionId: string): Promise<Session>;
  list(input: { tenantId: string; limit: number; before?: string }): Promise<Session[]>;
  /** Revokes what was granted in it. Idempotent. Throws session_busy while a run is not over. */
  archive(tenantId: string, sessionId: string): Promise<Session>;
  /** The tenant a session belongs to; undefined when there is no such session. */
  tenantOf(sessionId: string): Promise<string | undefined>;
  /** Names set for the session; undefined when none were: the profile's and all plugins' tools. Throws not_found. */
  activeTools(tenantId: string, sessionId: string): Promise<readonly string[] | undefined>;
  /** Replaces the names, audited. Throws not_found. */
  setActiveTools(input: {
    tenantId: string;
    sessionId: string;
    names: readonly string[];
    actor: string;
  }): Promise<void>;
}

export interface MessageStore {
  /** Ascending by eventSeq; `after` is an eventSeq. */
  list(input: { tenantId: string; sessionId: string; after?: number; limit: number }): Promise<Message[]>;
}

export interface NoticeStore {
  /** A system message of kind notice and its event; with the run's id while the run lives. */
  append(input: {
    tenantId: string;
    sessionId: string;
    runId?: string;
    text: string;
    plugin?: string;
    messageId: string;
    eventId: string;
  }): Promise<Appended>;
}
