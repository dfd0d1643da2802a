import { type LoopPorts, type LoopResult, runLoop } from '@codedock/agent-loop';
import {
  type GateVersionOf,
  type Model,
  type RunSnapshot,
  RunStopped,
  runEnd,
  type Tools,
  type Turn,
} from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { metrics } from '@codedock/platform';
import { appendFacts, endingOf, handBackRun, parkRun, type RunPorts, terminateRun } from '@codedock/runs';
import type { AppendBatch, Appended, Left } from '@codedock/store';
import { trace } from '@opentelemetry/api';
import { sha256 } from '../adapters.js';
import { RunLedger } from '../ledger/run-ledger.js';
import { type LeaseTimes, LeaseWatch } from './lease-watch.js';

/** What one attempt is executed with. */
export interface ExecutionPorts {
  readonly runs: RunPorts;
  readonly model: Model;
  readonly tools: Tools;
  readonly gateVersionOf: GateVersionOf;
  readonly drainRequested: () => boolean;
  readonly approvalTtlMs: number;
  /** Causes that the run's end only names; for logs. */
  readonly report: (error: unknown, where: string) => void;
  readonly lease: LeaseTimes;
  /** Told when a turn begins (or goes on) and when it is complete. */
  readonly onTurn?: (turn: Turn, phase: 'started' | 'completed') => void;
  /** Given the ledger before anything is written. */
  readonly onLedger?: (ledger: Pick<RunLedger, 'scratchpad'>) => void;
}

/** How an attempt was left. `lost`: the run is another's, or the database was gone; nothing more was written. */
export type Execution =
  | { readonly kind: 'ended'; readonly left: Left }
  | { readonly kind: 'waiting_approval' }
  | { readonly kind: 'handed_back' }
  | { readonly kind: 'lost'; readonly error: unknown };

/**
 * Executes a leased run until this attempt leaves it. `run` is the run's signal: whoever aborts it gives a `RunStopped`
 * as the reason. Never rejects.
 */
export async function executeRun(
  ports: ExecutionPorts,
  snapshot: RunSnapshot,
  run: AbortController,
): Promise<Execution> {
  const { runs } = ports;
  const { runId, attempt } = snapshot;
  const lease = new LeaseWatch({
    heartbeat: () => runs.store.runs.heartbeat(runId, attempt, ports.lease.ttlMs),
    run,
    times: ports.lease,
    report: (error) => ports.report(error, 'heartbeat'),
  });
  const wallTime = stopAfter(snapshot.config.limits.wallTimeMs - snapshot.elapsedMs, run);
  const ledger = new RunLedger({
    snapshot,
    ids: runs.ids,
    clock: runs.clock,
    append: (batch) => timedAppend(runs, batch),
    onLost(error) {
      ports.report(error, 'ledger');
      run.abort(new RunStopped('lease_lost'));
    },
    ...(ports.onTurn === undefined ? {} : { onTurn: ports.onTurn }),
  });
  ports.onLedger?.(ledger);
  if (snapshot.cancelRequested) run.abort(new RunStopped('cancel'));
  try {
    const result = await runLoop(snapshot, runs.hooks, loopPorts(ports, ledger), run.signal);
    clearTimeout(wallTime);
    return await leave(ports, snapshot, ledger, result);
  } catch (error) {
    ports.report(error, 'execution');
    return { kind: 'lost', error };
  } finally {
    clearTimeout(wallTime);
    ledger.close();
    lease.end();
  }
}

async function timedAppend(runs: RunPorts, batch: AppendBatch): Promise<Appended> {
  const started = performance.now();
  const appended = await appendFacts(runs, batch);
  metrics.eventAppend.record(performance.now() - started, {}, trace.getActiveSpan());
  return appended;
}

function loopPorts(ports: ExecutionPorts, ledger: RunLedger): LoopPorts {
  return {
    ledger,
    model: ports.model,
    tools: ports.tools,
    gateVersionOf: ports.gateVersionOf,
    clock: ports.runs.clock,
    ids: ports.runs.ids,
    digest: sha256,
    drainRequested: ports.drainRequested,
    report: ports.report,
  };
}

/** The longest timer there is; a longer wall time is as good as none. */
const LONGEST_TIMER_MS = 2_147_483_647;

function stopAfter(ms: number, run: AbortController): NodeJS.Timeout {
  return setTimeout(() => run.abort(new RunStopped('timeout')), Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
}

async function leave(
  ports: ExecutionPorts,
  snapshot: RunSnapshot,
  ledger: RunLedger,
  result: LoopResult,
): Promise<Execution> {
  switch (result.kind) {
    case 'ended':
      return end(ports, snapshot, ledger, result, result.end);
    case 'waiting_approval':
      return park(ports, snapshot, ledger, result);
    case 'handed_back':
      return handBack(ports, snapshot, ledger);
    case 'stopped':
      switch (result.by) {
        case 'lease_lost':
          return { kind: 'lost', error: new RunStopped('lease_lost') };
        case 'drain':
          return handBack(ports, snapshot, ledger);
        case 'timeout':
          return end(
            ports,
            snapshot,
            ledger,
            result,
            runEnd('timeout', {
              message: `The run took longer than its limit of ${snapshot.config.limits.wallTimeMs} ms.`,
            }),
          );
        case 'cancel': {
          const ending = await ports.runs.store.runs.ending(snapshot.runId);
          return end(ports, snapshot, ledger, result, runEnd(ending?.cancelReason ?? 'cancelled'));
        }
      }
  }
}

async function end(
  ports: ExecutionPorts,
  snapshot: RunSnapshot,
  ledger: RunLedger,
  result: Extract<LoopResult, { kind: 'ended' | 'stopped' }>,
  runEndOf: Parameters<typeof terminateRun>[1]['end'],
): Promise<Execution> {
  const runs = { ...ports.runs, hooks: endShown(ports.runs.hooks, result.view) };
  const ending = { ...endingOf(snapshot), metadata: ledger.metadata, scratchpad: ledger.scratchpad };
  const left = await ledger.leave((last) =>
    terminateRun(runs, { ending, token: snapshot.attempt, end: runEndOf, ...last }),
  );
  return { kind: 'ended', left };
}

/** Lets in-process hooks see, at the run's end, what the loop saw last. */
function endShown(hooks: Hooks, view: Extract<LoopResult, { kind: 'ended' }>['view']): Hooks {
  const { onRunEnd } = hooks;
  if (onRunEnd === undefined || view === undefined) return hooks;
  return {
    onRunEnd: (event, call) =>
      onRunEnd(event, {
        site: call.site,
        principal: call.principal,
        signal: call.signal,
        scratchpad: call.scratchpad,
        merge: (patch) => call.merge(patch),
        record: (record) => call.record(record),
        get records() {
          return call.records;
        },
        loop: view,
      }),
  };
}

async function park(
  ports: ExecutionPorts,
  snapshot: RunSnapshot,
  ledger: RunLedger,
  { turn, calls }: Extract<LoopResult, { kind: 'waiting_approval' }>,
): Promise<Execution> {
  const { runs } = ports;
  // A call that was in an approval before is asked about anew: what was approved then is not what would be executed.
  const supersedes = calls.find(({ call }) => call.approvalId !== undefined)?.call.approvalId;
  await ledger.leave(({ events, changes }) =>
    parkRun(runs, {
      tenantId: snapshot.tenantId,
      sessionId: snapshot.sessionId,
      run: { runId: snapshot.runId, token: snapshot.attempt },
      events,
      changes,
      to: {
        kind: 'waiting_approval',
        approval: {
          id: runs.ids.next(),
          turnId: turn.id,
          calls: calls.map(({ call, gated, reasons }) => ({
            callId: call.id,
            tool: call.name,
            arguments: call.arguments,
            digest: gated.digest,
            gateVersion: gated.gateVersion,
            reasons,
          })),
          expiresAt: new Date(runs.clock.now() + ports.approvalTtlMs).toISOString(),
          ...(supersedes === undefined ? {} : { supersedes }),
        },
      },
    }),
  );
  return { kind: 'waiting_approval' };
}

async function handBack(ports: ExecutionPorts, snapshot: RunSnapshot, ledger: RunLedger): Promise<Execution> {
  await ledger.flush();
  ledger.close();
  const handed = await handBackRun(ports.runs, snapshot.runId, snapshot.attempt);
  return handed ? { kind: 'handed_back' } : { kind: 'lost', error: new RunStopped('lease_lost') };
}
