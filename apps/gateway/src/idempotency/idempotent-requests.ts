import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '@codedock/domain';
import type { Claim, Store, StoredResponse } from '@codedock/store';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ids } from '../ids.js';
import type { SecretPlace } from '../secrets/secret-cipher.js';
import { answerPlace, type SecretTexts } from '../secrets/secret-texts.js';

/** A claimed key, as the transaction that creates something completes it. */
export interface ClaimedKey {
  readonly tenantId: string;
  readonly route: string;
  readonly key: string;
  readonly ownerToken: string;
}

export interface IdempotencyTiming {
  /** Milliseconds a claim lives beyond the gate's budget. */
  readonly graceMs: number;
  /** Budget of the gate that is asked between claim and answer, milliseconds. */
  readonly budgetMs: () => number;
  /** Milliseconds a concurrent duplicate waits for the first one's answer. */
  readonly waitMs: () => number;
}

/** An answer before it becomes JSON. */
export interface Answer {
  readonly status: number;
  readonly body: object;
}

/** Does the work of a request; completes its claim in the transaction that creates something. */
export type Work = (claim: ClaimedKey | undefined) => Promise<Answer>;

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/;
const POLL_MS = 100;
/** Members of answers that may hold a secret. */
const SEALED_MEMBERS = new Set(['secret', 'key', 'token']);

/** Gives every request with an `Idempotency-Key` one outcome, however often and wherever it is sent. */
export class IdempotentRequests {
  /** Keys that this process works on: duplicates wait here without asking the database. */
  private readonly inProgress = new Map<string, Promise<unknown>>();

  constructor(
    private readonly store: Store['idempotency'],
    private readonly timing: IdempotencyTiming,
    private readonly texts: SecretTexts,
  ) {}

  /**
   * Secrets of an answer, as they are stored for a replay: encrypted. Without a key to encrypt with they are not stored,
   * and a replayed answer does not hold them, unless they lie in the database as they are anyway.
   */
  kept(claim: ClaimedKey, secrets: Readonly<Record<string, string>>, plainElsewhere = false): JsonObject {
    if (!this.texts.encrypts && !plainElsewhere) return {};
    const place = answerPlace(claim.tenantId, claim.key);
    return Object.fromEntries(Object.entries(secrets).map(([name, text]) => [name, this.texts.seal(text, place)]));
  }

  /**
   * Answers a request by doing its work, or by the stored answer of the first request with this key. The work throws
   * where nothing was created: the key is free again then.
   * @throws AppError `idempotency_mismatch` (422) for another body, `idempotency_in_progress` (409, Retry-After) when the
   * first request is still being worked on after the wait.
   */
  async answer(request: FastifyRequest, reply: FastifyReply, work: Work): Promise<unknown> {
    const key = keyOf(request.headers['idempotency-key']);
    const tenantId = request.caller?.tenantId;
    if (key === undefined || tenantId === undefined) return sent(reply, await work(undefined));
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    const scope = { tenantId, route, key };
    const name = `${tenantId} ${route} ${key}`;
    const claim = await this.claimed(name, scope, digestOf(request));
    if (claim.kind === 'replay') {
      reply.header('idempotency-replayed', 'true');
      return sent(reply, { ...claim.response, body: this.opened(claim.response.body, answerPlace(tenantId, key)) });
    }
    const working = this.worked({ ...scope, ownerToken: claim.ownerToken }, work);
    this.inProgress.set(name, working);
    try {
      return sent(reply, await working);
    } finally {
      if (this.inProgress.get(name) === working) this.inProgress.delete(name);
    }
  }

  private opened(body: JsonValue, place: SecretPlace): JsonValue {
    if (!isJsonObject(body)) return body;
    return Object.fromEntries(
      Object.entries(body).map(([name, value]) => [
        name,
        SEALED_MEMBERS.has(name) && typeof value === 'string' ? this.texts.open(value, place) : value,
      ]),
    );
  }

  private async claimed(
    name: string,
    scope: { tenantId: string; route: string; key: string },
    bodyDigest: string,
  ): Promise<{ kind: 'claimed'; ownerToken: string } | Extract<Claim, { kind: 'replay' }>> {
    const ownerToken = ids.next();
    const ttlMs = this.timing.budgetMs() + this.timing.graceMs;
    const deadline = performance.now() + this.timing.waitMs();
    for (;;) {
      const claim = await this.store.claim({ ...scope, bodyDigest, ownerToken, ttlMs });
      if (claim.kind === 'claimed') return { kind: 'claimed', ownerToken };
      if (claim.kind === 'replay') return claim;
      if (claim.kind === 'mismatch') {
        throw new AppError('idempotency_mismatch', 'This Idempotency-Key was used for another request; use a new key.');
      }
      const left = deadline - performance.now();
      if (left <= 0) {
        throw new AppError(
          'idempotency_in_progress',
          'The first request with this Idempotency-Key is still being worked on.',
          {
            retryAfterMs: claim.retryAfterMs,
          },
        );
      }
      const pause = sleep(Math.min(left, this.inProgress.has(name) ? left : POLL_MS), undefined, { ref: false });
      await Promise.race([pause, this.inProgress.get(name)?.catch(() => undefined) ?? pause]);
    }
  }

  private async worked(claim: ClaimedKey & { tenantId: string }, work: Work): Promise<Answer> {
    try {
      return await work(claim);
    } catch (error) {
      // A completed claim is not freed by this, and one that could not be freed expires by itself.
      await this.store.release(claim).catch(() => undefined);
      throw error;
    }
  }
}

function keyOf(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === 'string' && VISIBLE_ASCII.test(header)) return header;
  throw new AppError('invalid_request', 'Idempotency-Key must be 1 to 255 visible ASCII characters.', {
    errors: [{ path: 'Idempotency-Key', message: 'must be 1 to 255 visible ASCII characters' }],
  });
}

function digestOf(request: FastifyRequest): string {
  const path = request.url.split('?', 1)[0] ?? '';
  return createHash('sha256')
    .update(canonicalJson({ path, body: (request.body ?? null) as JsonValue }))
    .digest('hex');
}

function sent(reply: FastifyReply, answer: Answer | StoredResponse): unknown {
  reply.status(answer.status);
  return answer.body;
}
