import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '@codedock/domain';
import type { DatabaseClock } from '@codedock/store';

/** The database's clock; a sleep does not keep the process alive. */
export const clockOf = ({ now }: Pick<DatabaseClock, 'now'>): Clock => ({
  now,
  sleep: (ms, signal) => sleep(ms, undefined, { signal, ref: false }).catch(() => undefined),
});
