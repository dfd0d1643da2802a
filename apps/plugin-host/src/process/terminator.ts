import { delay } from './delay.js';
import type { PluginProcess } from './plugin-process.js';

/** Milliseconds a plugin has to answer Shutdown. */
export const shutdownAnswerMs = 2_000;

/** Milliseconds a plugin has to end after that. */
export const exitGraceMs = 2_000;

/** How a process was ended. */
export type Termination = 'exited' | 'killed';

/**
 * Ends a plugin: asks it to shut down, waits, then kills its group. At most 4 s; whatever `shutdown` answers counts as
 * an answer, since plugins drop the connection while they obey.
 */
export async function terminate(
  process: PluginProcess,
  shutdown: (timeoutMs: number) => Promise<unknown>,
): Promise<Termination> {
  await Promise.race([shutdown(shutdownAnswerMs).catch(() => undefined), delay(shutdownAnswerMs), process.exited]);
  const outcome = await Promise.race([
    process.exited.then(() => 'exited' as const),
    delay(exitGraceMs).then(() => 'killed' as const),
  ]);
  if (outcome === 'killed') process.kill();
  await process.exited;
  return outcome;
}
