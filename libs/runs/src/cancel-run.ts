import { isAppError, isTerminal, runEnd } from '@codedock/domain';
import type { Fenced, RunView } from '@codedock/store';
import type { RunPorts } from './ports.js';
import { terminateRun } from './terminate-run.js';

/** How long a runner has to end a cancelled run before its lease is taken from it, milliseconds. */
export const CANCEL_GRACE_MS = 700;
const POLL_MS = 40;

/** A wish to end a run. */
export interface CancelRun {
  readonly tenantId: string;
  readonly runId: string;
  /** Who asks: an API key's name, or `host`. */
  readonly actor: string;
}

/**
 * Cancels a run in whatever state it is, within a second, whether or not its runner answers: the flag is a row, then
 * published; a run no runner holds ends at once; a running one gets 700 ms and is then fenced. The answer is the state
 * that won: a run that finished first stays finished. Throws not_found.
 */
export async function cancelRun(ports: RunPorts, input: CancelRun): Promise<RunView> {
  let run = await ports.store.runs.requestCancel(input);
  const deadline = ports.clock.now() + CANCEL_GRACE_MS;
  while (!isTerminal(run.status)) {
    if (run.status === 'running') {
      ports.bus.publishCancel({ runId: run.id });
      run = await runnersAnswer(ports, input, deadline);
      if (isTerminal(run.status)) break;
    }
    const fenced = await ports.store.runs.fence(run.id, { running: ports.clock.now() >= deadline });
    if (fenced !== undefined) await endFenced(ports, fenced);
    run = await ports.store.runs.get(input.tenantId, input.runId);
  }
  return run;
}

async function runnersAnswer(ports: RunPorts, input: CancelRun, deadline: number): Promise<RunView> {
  for (;;) {
    const run = await ports.store.runs.get(input.tenantId, input.runId);
    const left = deadline - ports.clock.now();
    if (run.status !== 'running' || left <= 0) return run;
    await ports.clock.sleep(Math.min(POLL_MS, left), new AbortController().signal);
  }
}

async function endFenced(ports: RunPorts, fenced: Fenced): Promise<void> {
  try {
    await terminateRun(ports, {
      ending: fenced,
      token: fenced.token,
      end: runEnd(fenced.cancelReason ?? 'cancelled', { by: 'host' }),
    });
  } catch (error) {
    // Another canceller fenced after us: it ends the run, and the caller reads what won.
    if (!isAppError(error, 'lease_lost')) throw error;
  }
}
