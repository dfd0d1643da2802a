import { createHash } from 'node:crypto';
import { AppError } from '@codedock/domain';
import type { Caller } from './caller.js';

/** A stored key, found by its hash; undefined when there is none, or it is revoked or expired. */
export type FindKey = (hash: string) => Promise<Caller | undefined>;

export interface AuthenticatorOptions {
  readonly findKey: FindKey;
  /** Milliseconds for which an answer of the store is used again: how long a revoked key may still work. */
  readonly cacheMs: number;
  readonly now: () => number;
}

/** Most keys remembered at a time. */
const MAX_REMEMBERED = 10_000;
const BEARER = /^Bearer +([\x21-\x7e]{1,512})$/i;

interface Remembered {
  readonly caller: Promise<Caller | undefined>;
  readonly until: number;
}

/** Finds the caller of a request by its bearer key, asking the store at most once per key and `cacheMs`. */
export class Authenticator {
  private readonly remembered = new Map<string, Remembered>();

  constructor(private readonly options: AuthenticatorOptions) {}

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

  private find(hash: string): Promise<Caller | undefined> {
    const now = this.options.now();
    const known = this.remembered.get(hash);
    if (known !== undefined && known.until > now) return known.caller;
    if (this.remembered.size >= MAX_REMEMBERED) this.remembered.clear();
    const caller = this.options.findKey(hash);
    this.remembered.set(hash, { caller, until: now + this.options.cacheMs });
    // A store that could not be asked has said nothing about the key.
    caller.catch(() => this.remembered.delete(hash));
    return caller;
  }
}
