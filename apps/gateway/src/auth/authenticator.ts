import { createHash } from 'node:crypto';
import { AppError } from '@codedock/domain';
import { RememberedAnswers } from '../remembered-answers.js';
import type { Caller } from './caller.js';

/** A stored key, found by its hash; undefined when there is none, or it is revoked or expired. */
export type FindKey = (hash: string) => Promise<Caller | undefined>;

export interface AuthenticatorOptions {
  readonly findKey: FindKey;
  /** Whether a key, named by its id, is neither revoked nor expired. */
  readonly keyIsLive: (tenantId: string, keyId: string) => Promise<boolean>;
  /** Milliseconds for which an answer of the store is used again: how long a revoked key may still work. */
  readonly cacheMs: number;
  readonly now: () => number;
}

const BEARER = /^Bearer +([\x21-\x7e]{1,512})$/i;

/** Finds the caller of a request by its bearer key, asking the store at most once per key and `cacheMs`. */
export class Authenticator {
  private readonly callers: RememberedAnswers<Caller | undefined>;
  private readonly live: RememberedAnswers<boolean>;

  constructor(private readonly options: AuthenticatorOptions) {
    const remembered = { keepMs: options.cacheMs, now: options.now };
    this.callers = new RememberedAnswers(remembered);
    this.live = new RememberedAnswers(remembered);
  }

  /**
   * The caller for an `Authorization` header.
   * @throws AppError `unauthenticated` when the header is missing or malformed, the key is unknown, revoked or expired.
   */
  async authenticate(header: string | undefined): Promise<Caller> {
    if (header === undefined) {
      throw new AppError('unauthenticated', 'This route needs an API key: send it as Authorization: Bearer <key>.');
    }
    const key = BEARER.exec(header)?.[1];
    const caller = key === undefined ? undefined : await this.find(createHash('sha256').update(key).digest('hex'));
    if (caller === undefined) {
      throw new AppError(
        'unauthenticated',
        'The API key is unknown, expired or revoked; create one with codedock keys create.',
      );
    }
    return caller;
  }

  /** Whether the key that a caller was known by is good still. Rejects when the store cannot be asked. */
  keyIsLive({ tenantId, keyId }: Pick<Caller, 'tenantId' | 'keyId'>): Promise<boolean> {
    return this.live.of(`${tenantId} ${keyId}`, () => this.options.keyIsLive(tenantId, keyId));
  }

  private find(hash: string): Promise<Caller | undefined> {
    return this.callers.of(hash, () => this.options.findKey(hash));
  }
}
