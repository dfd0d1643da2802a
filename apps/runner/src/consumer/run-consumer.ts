import { setMaxListeners } from 'node:events';
import { type LedgerEvent, type LiveBus, type RunSnapshot, RunStopped, type TraceContext } from '@codedock/domain';
import { chain, type Hooks } from '@codedock/hooks';
import { guardedHeaders, type Models } from '@codedock/models';
import { ATTRIBUTES, type Logger, metrics, withSpan } from '@codedock/platform';
import type { PluginHosts } from '@codedock/plugin-bridge';
import { createDoorbellWorker, type DoorbellWorker, type QueueReporter, RingGivenBack } from '@codedock/queue';
import { leaseRun, type RunPorts } from '@codedock/runs';
import type { Span } from '@opentelemetry/api';
import { type Execution, executeRun } from '../execution/execute-run.js';
import type { LeaseTimes } from '../execution/lease-watch.js';
import type { RunLedger } from '../ledger/run-ledger.js';
import { gatesOf, listenedBus, type NoticedRun, noticingBus, tell } from '../plugins/noticing-bus.js';
import { AttemptTrace, type TraceRuns } from '../telemetry/attempt-trace.js';
import { beginCounters, RunSpans } from '../telemetry/run-spans.js';
import type { ToolRegistry } from '../tools/tool-registry.js';
import { StoreWatch } from './store-watch.js';

export interface RunConsumerOptions {
  readonly queueUrl: string;
  readonly concurrency: number;
  readonly lease: LeaseTimes;
  readonly approvalTtlMs: number;
  readonly traceRuns: TraceRuns;
  readonly runs: Omit<RunPorts, 'hooks'>;
  /** Hooks of this process, asked before the plugins. */
  readonly hooks: Hooks;
  readonly hosts: PluginHosts;
  readonly models: Models;
  readonly tools: ToolRegistry;
  readonly logger: Logger;
  readonly report: QueueReporter;
}

/** Takes runs from the queue and executes them. */
export interface RunConsumer {
  /** Runs being executed now. */
  readonly active: number;
  /** True while rings are answered, as far as the plugins go. */
  readonly taking: boolean;
  /** Why the queue brings no rings although they would be answered; undefined while it does. */
  readonly queueTrouble: string | undefined;
  /**
   * Takes no further run; lets turns finish for at most `timeoutMs`, then stops them; every run that did not end is
   * handed back. Resolves when none is left.
   */
  drain(timeoutMs: number): Promise<void>;
  /** Drains with no time at all and closes. */
  close(): Promise<void>;
}

/** Starts answering rings, as soon as the plugins can be asked. */
export async function startRunConsumer(options: RunConsumerOptions): Promise<RunConsumer> {
  const { hosts, logger, runs } = options;
  beginCounters();
  const hooks = chain(options.hooks, gatesOf(hosts.hooks()));
  // A run may be here twice for a moment: parked or handed back, and rung again before the first call has returned.
  const active = new Set<{ readonly runId: string; readonly run: AbortController; readonly done: Promise<void> }>();
  let draining = false;

  const execute = async (runId: string, ring: TraceContext, run: AbortController): Promise<void> => {
    const committed: LedgerEvent[] = [];
    const leased = await leaseRun(
      { ...runs, hooks, bus: collecting(runs.bus, committed) },
      runId,
      options.lease.ttlMs,
    ).catch((cause: unknown) => {
      // Another runner may reach the store: one that cannot must not swallow the rings of all.
      throw storeWatch.lostBy(cause) ? new RingGivenBack({ cause }) : cause;
    });
    if (leased.kind === 'nothing') return;
    const { snapshot, trace, queuedMs } = leased;
    let ledger: Pick<RunLedger, 'scratchpad'> = snapshot;
    const noticed: NoticedRun = {
      tenantId: snapshot.tenantId,
      runId,
      principal: snapshot.principal,
      scratchpad: () => ledger.scratchpad,
    };
    for (const event of committed) tell(hosts, noticed, event);
    const attempt = new AttemptTrace({
      snapshot,
      origin: trace.traceparent === undefined ? ring : trace,
      runs: options.traceRuns,
      // Its state did not change: it was running, under a lease that ran out.
      tookOver: committed.length === 0,
    });
    await withSpan(
      'run execute',
      {
        ...attempt.span,
        attributes: {
          [ATTRIBUTES.runId]: runId,
          [ATTRIBUTES.sessionId]: snapshot.sessionId,
          [ATTRIBUTES.attempt]: snapshot.attempt,
        },
      },
      async (span) => {
        if (queuedMs !== null) metrics.queueWait.record(queuedMs, {}, span);
        attempt.closeLost();
        const spans = new RunSpans((turn) => attempt.turnIds(turn));
        const started = performance.now();
        const execution = await executeRun(
          {
            runs: {
              ...runs,
              bus: noticingBus(runs.bus, hosts, noticed),
              hooks: guardedHeaders(spans.hooks(hooks)),
            },
            model: spans.model({
              stream: (request, gates, signal) => options.models.for(request.model).stream(request, gates, signal),
            }),
            tools: spans.tools(
              options.tools.forRun(
                snapshot.config,
                {
                  list: () => hosts.tools(snapshot.principal),
                  execute: (invocation, signal) => hosts.executeTool(invocation, signal),
                },
                () => runs.store.sessions.activeTools(snapshot.tenantId, snapshot.sessionId),
              ),
            ),
            gateVersionOf: (tool) => hosts.gateVersionOf(tool, snapshot.principal),
            drainRequested: () => draining,
            approvalTtlMs: options.approvalTtlMs,
            report: (error, where) =>
              logger.warn({ err: error, runId, attempt: snapshot.attempt, where }, 'a run met a failure'),
            lease: options.lease,
            onTurn: (turn, phase) => spans.onTurn(turn, phase),
            onLedger: (opened) => {
              ledger = opened;
            },
          },
          snapshot,
          run,
        );
        spans.end();
        span.setAttribute(ATTRIBUTES.outcome, execution.kind);
        account(logger, snapshot, execution, performance.now() - started, span);
      },
    );
  };

  // Any number of rings is harmless: while the lease of a run lives, another ring finds nothing to do.
  const onRing = async (runId: string, ring: TraceContext): Promise<void> => {
    if (draining) return;
    const run = new AbortController();
    // Every gate and tool under way listens, and the calls of a turn run side by side: ten are no leak.
    setMaxListeners(0, run.signal);
    const executing = execute(runId, ring, run);
    const entry = { runId, run, done: executing.catch(() => undefined) };
    active.add(entry);
    metrics.runsExecuting.add(1, {});
    try {
      await executing;
    } finally {
      metrics.runsExecuting.add(-1, {});
      active.delete(entry);
    }
  };

  const endCancels = await runs.bus.subscribeCancels(({ runId }) => {
    for (const entry of active) if (entry.runId === runId) entry.run.abort(new RunStopped('cancel'));
  });
  let taking = hosts.readiness().ready;
  if (!taking) logger.warn({ reason: hosts.readiness().reason }, 'no runs are taken until the plugins can be asked');
  const storeWatch = new StoreWatch({
    ready: () => runs.store.ready(),
    clock: runs.clock,
    onChange(reachable, error) {
      if (reachable) logger.info('the database can be asked again');
      else logger.warn({ err: error }, 'no runs are taken until the database can be asked');
      answer();
    },
  });
  const answer = () => {
    if (draining) return;
    if (taking && storeWatch.reachable) worker.resume();
    else worker.pause();
  };
  const worker: DoorbellWorker = await createDoorbellWorker(options.queueUrl, {
    concurrency: options.concurrency,
    onRing,
    report: options.report,
    paused: !taking,
  });
  const follow = ({ ready, reason }: { readonly ready: boolean; readonly reason: string }) => {
    if (draining || ready === taking) return;
    taking = ready;
    answer();
    logger.info({ ready, reason }, ready ? 'runs are taken' : 'no runs are taken until the plugins can be asked');
  };
  const endReadiness = hosts.onReadyChange(follow);
  // What changed while the worker was being made.
  follow(hosts.readiness());

  let drained: Promise<void> | undefined;
  const drain = async (timeoutMs: number): Promise<void> => {
    draining = true;
    taking = false;
    worker.stop();
    endReadiness();
    storeWatch.close();
    const idle = () => Promise.all([...active].map(({ done }) => done));
    await settledWithin(idle(), timeoutMs);
    for (const { run } of active) run.abort(new RunStopped('drain'));
    await idle();
    endCancels();
    await worker.close();
  };
  return {
    get active() {
      return active.size;
    },
    get taking() {
      return taking;
    },
    get queueTrouble() {
      return worker.trouble;
    },
    drain(timeoutMs) {
      drained ??= drain(timeoutMs);
      return drained;
    },
    close() {
      drained ??= drain(0);
      return drained;
    },
  };
}

/** A bus that remembers what was published through it. */
function collecting(bus: LiveBus, into: LedgerEvent[]): LiveBus {
  return listenedBus(bus, (push) => into.push(...(push.events ?? [])));
}

function account(logger: Logger, snapshot: RunSnapshot, execution: Execution, durationMs: number, span: Span): void {
  const { runId, attempt } = snapshot;
  if (execution.kind === 'lost') {
    metrics.leaseLosses.add(1, {});
    logger.warn({ err: execution.error, runId, attempt }, 'the run was left to its next lease');
    return;
  }
  const end = execution.kind === 'ended' ? execution.left.end : undefined;
  if (end !== undefined) metrics.runDuration.record(snapshot.elapsedMs + durationMs, { status: end.status }, span);
  // The ledger and the metrics have every run; a line for each that simply completed would be most of the log.
  logger[end?.status === 'completed' ? 'debug' : 'info'](
    { runId, attempt, left: execution.kind, ...(end === undefined ? {} : end), durationMs: Math.round(durationMs) },
    'run left',
  );
}

async function settledWithin(promise: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, over]);
  clearTimeout(timer);
}
