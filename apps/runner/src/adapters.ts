import { createHash } from 'node:crypto';
import type { Clock, Digest, IdSource } from '@codedock/domain';
import type { DatabaseClock } from '@codedock/store';
import { v7 } from 'uuid';

/** SHA-256 in hex. */
export const sha256: Digest = (text) => createHash('sha256').update(text, 'utf8').digest('hex');

/** Time-ordered UUIDs. */
export const uuids: IdSource = { next: () => v7() };

/** The database's clock, with sleeps of this process. */
export const clockOf = ({ now }: Pick<DatabaseClock, 'now'>): Clock => ({
  now,
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
});
