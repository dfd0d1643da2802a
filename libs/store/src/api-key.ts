import { createHash, randomBytes } from 'node:crypto';

/** An API key and what is stored of it. */
export interface HashedApiKey {
  readonly key: string;
  readonly hash: string;
}

/** A new API key: 256 random bits behind a prefix that secret scanners can look for. Shown once, stored only as its hash. */
export function newApiKey(): HashedApiKey {
  return hashedApiKey(`cdk_${randomBytes(32).toString('base64url')}`);
}

/** An API key that somebody else made, with its hash. */
export function hashedApiKey(key: string): HashedApiKey {
  return { key, hash: createHash('sha256').update(key).digest('hex') };
}
