import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '@codedock/domain';

/** The system's clock; a sleep does not keep the process alive. */
export const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal, ref: false }).catch(() => undefined),
};
