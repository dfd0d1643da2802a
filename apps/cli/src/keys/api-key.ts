import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A new API key: 256 random bits behind a prefix that secret scanners can look for. Shown once, stored only as its hash. */
export function newApiKey(): { readonly key: string; readonly hash: string } {
  return hashed(`cdk_${randomBytes(32).toString('base64url')}`);
}

/** The API key that somebody else made and put into a file. @throws when it does not look like one; it is never shown. */
export function apiKeyIn(file: string): { readonly key: string; readonly hash: string } {
  const key = readFileSync(file, 'utf8').trim();
  if (!/^cdk_[A-Za-z0-9_-]{43}$/.test(key)) {
    throw new Error(`${file} holds no API key: it takes cdk_ and 43 of A-Z a-z 0-9 _ -, as \`keys create\` prints.`);
  }
  return hashed(key);
}

function hashed(key: string) {
  return { key, hash: createHash('sha256').update(key).digest('hex') };
}
