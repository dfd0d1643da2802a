import { createHash } from 'node:crypto';
import type { Digest, IdSource } from '@codedock/domain';
import { v7 } from 'uuid';

/** SHA-256 in hex. */
export const sha256: Digest = (text) => createHash('sha256').update(text, 'utf8').digest('hex');

/** Time-ordered UUIDs. */
export const uuids: IdSource = { next: () => v7() };
