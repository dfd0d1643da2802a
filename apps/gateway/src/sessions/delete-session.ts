import { isAppError, type RunStatus } from '@codedock/domain';
import { cancelRun, type RunPorts } from '@codedock/runs';

/** Rows of one statement, and statements within a request: what is left goes on in the background. */
const BATCH = 2_000;
const BATCHES = 5;
/** How often runs that were started meanwhile are cancelled too. */
const ATTEMPTS = 5;
/** Those that wait first: none of them shall take the place of one that ends. */
const OPEN: readonly RunStatus[] = ['pending', 'waiting_approval', 'queued', 'running'];

export interface DeleteSession {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly actor: { readonly id: string; readonly name: string };
  /** Cancels runs that are not over instead of refusing. */
  readonly cancel: boolean;
}

/**
 * Deletes a session with everything in it. From its first commit on it exists for nobody; true when its rows are gone too,
 * false when they are many and the rest follows.
 * @throws AppError `not_found`, `session_busy` when a run is not over.
 */
export async function deleteSession(ports: RunPorts, input: DeleteSession): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      await ports.store.sessionDeletion.begin(input);
      break;
    } catch (error) {
      if (!input.cancel || attempt === ATTEMPTS || !isAppError(error, 'session_busy')) throw error;
      await cancelOpenRuns(ports, input);
    }
  }
  for (let batch = 0; batch < BATCHES; batch++) {
    if (await ports.store.sessionDeletion.some(input.tenantId, input.sessionId, BATCH)) return true;
  }
  return false;
}

async function cancelOpenRuns(ports: RunPorts, { tenantId, sessionId, actor }: DeleteSession): Promise<void> {
  for (const status of OPEN) {
    const runs = await ports.store.runs.list({ tenantId, sessionId, status, limit: 200 });
    await Promise.all(runs.map((run) => cancelRun(ports, { tenantId, runId: run.id, actor: actor.name })));
  }
}
