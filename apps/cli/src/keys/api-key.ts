import { createHash, randomBytes } from 'node:crypto';

/** A new API key: 256 random bits behind a prefix that secret scanners can look for. Shown once, stored only as its hash. */
export function newApiKey(): { readonly key: string; readonly hash: string } {
  const key = `cdk_${randomBytes(32).toString('base64url')}`;
  return { key, hash: createHash('sha256').update(key).digest('hex') };
}
