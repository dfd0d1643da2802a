import type { NewLedgerEvent, RunEnd } from '@codedock/domain';
import { notify } from '@codedock/hooks';
import type { Changes, EndingRun, Left, SitedRecord } from '@codedock/store';
import { afterCommit } from './after-commit.js';
import { type OpenGate, openGate } from './open-gate.js';
import type { RunPorts } from './ports.js';

/** The end of a run by the holder of its lease. */
export interface TerminateRun {
  readonly ending: EndingRun;
  /** The caller's lease. */
  readonly token: number;
  readonly end: RunEnd;
  /** Last facts, stored in the same transaction before the terminal event. */
  readonly events?: readonly NewLedgerEvent[];
  readonly changes?: Changes;
}

/**
 * Ends a run, on every path: `onRunEnd` is started, then one transaction writes the last facts, the terminal state and
 * event and admits who comes next; then it is published and rung. Throws lease_lost, with nothing written, when another
 * process holds the lease; a run that has ended already gives `applied: false` and the end that counts.
 */
export async function terminateRun(ports: RunPorts, input: TerminateRun): Promise<Left> {
  const { ending, token, end } = input;
  const records = tellEnd(ports, input);
  const changes: Changes = {
    ...input.changes,
    ...(records.length === 0 ? {} : { records: [...(input.changes?.records ?? []), ...records] }),
  };
  const left = await ports.store.runs.leave({
    tenantId: ending.tenantId,
    sessionId: ending.sessionId,
    run: { runId: ending.runId, token },
    events: input.events ?? [],
    changes,
    to: { kind: 'end', end },
  });
  await afterCommit(ports, { events: [...left.events, ...left.otherEvents], rings: left.rings });
  return left;
}

function tellEnd(ports: RunPorts, { ending, token, end, changes }: TerminateRun): SitedRecord[] {
  let opened: OpenGate | undefined;
  notify(
    ports.hooks.onRunEnd,
    {
      runId: ending.runId,
      sessionId: ending.sessionId,
      status: end.status,
      stopReason: end.stopReason,
      ...(end.message === undefined ? {} : { message: end.message }),
      metadata: changes?.run?.metadata ?? ending.metadata,
    },
    () => {
      const site = {
        tenantId: ending.tenantId,
        sessionId: ending.sessionId,
        runId: ending.runId,
        attempt: token,
      };
      opened = openGate(site, ending.principal, ending.scratchpad, new AbortController().signal, 'onRunEnd');
      return opened.call;
    },
  );
  return opened?.sitedRecords() ?? [];
}
