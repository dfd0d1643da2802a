import type { LedgerEvent, Ring } from '@codedock/domain';
import type { RunPorts } from './ports.js';

type Outward = Pick<RunPorts, 'bus' | 'doorbell' | 'report'>;

/** Pushes committed events to their sessions' live channels, one push per session. The bus drops events that are too large. */
export function publishEvents(bus: RunPorts['bus'], events: readonly LedgerEvent[]): void {
  const bySession = new Map<string, LedgerEvent[]>();
  for (const event of events) {
    const known = bySession.get(event.sessionId);
    if (known === undefined) bySession.set(event.sessionId, [event]);
    else known.push(event);
  }
  for (const [sessionId, own] of bySession) {
    const last = own.at(-1);
    if (last !== undefined) bus.publish({ sessionId, lastSeq: last.seq, events: own });
  }
}

/** Rings for committed runs. A ring that fails is reported only: the row is the truth and the reconciler rings again. */
export async function ringAll(ports: Outward, rings: readonly Ring[]): Promise<void> {
  await Promise.all(
    rings.map((ring) =>
      ports.doorbell.ring(ring).catch((error: unknown) => {
        ports.report({ kind: 'ring_failed', runId: ring.runId, error });
      }),
    ),
  );
}

/** What follows a commit, in this order: push, then ring. */
export async function afterCommit(
  ports: Outward,
  committed: { readonly events?: readonly LedgerEvent[]; readonly rings?: readonly Ring[] },
): Promise<void> {
  if (committed.events !== undefined) publishEvents(ports.bus, committed.events);
  if (committed.rings !== undefined) await ringAll(ports, committed.rings);
}
