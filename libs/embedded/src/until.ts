import { setTimeout as delay } from 'node:timers/promises';

const STEP_MS = 20;

/** Checks `condition` every 20 ms until it holds (true) or `timeoutMs` have passed (false). */
export async function untilTrue(condition: () => Promise<boolean>, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    if (await condition()) {
      return true;
    }
    if (performance.now() >= deadline) {
      return false;
    }
    await delay(STEP_MS);
  }
}
