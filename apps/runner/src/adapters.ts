import { createHash } from 'node:crypto';
import type { Clock, Digest, IdSource } from '@codedock/domain';
import { v7 } from 'uuid';

/** SHA-256 in hex. */
export const sha256: Digest = (text) => createHash('sha256').update(text, 'utf8').digest('hex');

/** Time-ordered UUIDs. */
export const uuids: IdSource = { next: () => v7() };

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener('abort', done, { once: true });
    }),
};
