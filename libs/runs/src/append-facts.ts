import type { AppendBatch, Appended } from '@codedock/store';
import { publishEvents } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** Stores facts, then pushes them: nothing is seen that was not committed. Throws as `store.ledger.append`. */
export async function appendFacts(ports: Pick<RunPorts, 'store' | 'bus'>, batch: AppendBatch): Promise<Appended> {
  const appended = await ports.store.ledger.append(batch);
  publishEvents(ports.bus, appended.events);
  return appended;
}
