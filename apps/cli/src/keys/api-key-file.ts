import { readFileSync } from 'node:fs';
import { type HashedApiKey, hashedApiKey } from '@codedock/store';

/** The API key that somebody else made and put into a file. @throws when it does not look like one; it is never shown. */
export function apiKeyIn(file: string): HashedApiKey {
  const key = readFileSync(file, 'utf8').trim();
  if (!/^cdk_[A-Za-z0-9_-]{43}$/.test(key)) {
    throw new Error(`${file} holds no API key: it takes cdk_ and 43 of A-Z a-z 0-9 _ -, as \`keys create\` prints.`);
  }
  return hashedApiKey(key);
}
