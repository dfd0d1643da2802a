import { appendFileSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { JsonObject, NewLedgerEvent } from '@codedock/domain';
import type { GatewayParts } from '@codedock/gateway';
import type { RunnerParts } from '@codedock/runner';
import type { AppendBatch } from '@codedock/store';

/** Where a process can be told to die, in the order in which a run passes the places. */
export const CRASH_POINTS = {
  'after-commit-before-reply': 'the gateway has accepted the run; nobody was rung, nothing answered',
  'after-claim': 'the lease is taken, nothing was done under it',
  'mid-stream': 'a piece of the reply is stored, the reply is not complete',
  'after-gate': 'the gates have answered about a call, their answer is not stored',
  'after-intent': 'the execution is stored, the tool was not asked',
  'after-effect': 'the tool has answered, the answer went nowhere',
  'before-outcome': 'the result has passed its gate and is not stored',
  'after-outcome': 'the result is stored, nobody was told',
  'in-approval': 'the question for a person is stored, nobody was told',
  'before-terminal': 'the run is done, its end is not stored',
  'after-terminal': 'the end is stored, nobody was told',
  'before-ack': 'the end is stored and on its way to the clients, the job is still in the queue',
} as const;

/** Name of a place where a process dies. */
export type CrashPoint = keyof typeof CRASH_POINTS;

/** What a run's metadata says: whichever process passes this place with it dies, but no more often than `times`. */
export interface CrashOrder {
  readonly at: CrashPoint;
  readonly times: number;
}

/** The metadata of a run that is the death of its process, once or so many times. */
export function crashing(at: CrashPoint, times = 1): { readonly metadata: { readonly crash: CrashOrder } } {
  return { metadata: { crash: { at, times } } };
}

/** The metadata of a run whose first execution of a tool blocks the runner's event loop for so many milliseconds. */
export function blocking(ms: number): { readonly metadata: { readonly blockMs: number } } {
  return { metadata: { blockMs: ms } };
}

/** What happens to a process whose run has reached its place; it does not come back. */
export type Die = (runId: string, order: CrashOrder) => void;

/**
 * Kills the own process like the kernel does: nothing is flushed, nothing handed back. Each death leaves a line with its
 * time in a file of the folder, which is how a later process knows how often the run was the death of one.
 */
export function dieOnce(folder: string): Die {
  return (runId, { times }) => {
    const file = path.join(folder, runId);
    if (deathsIn(file).length >= times) return;
    appendFileSync(file, `${Date.now()}\n`);
    process.kill(process.pid, 'SIGKILL');
  };
}

/** Times of the deaths that a file tells of, milliseconds of the machine's clock. */
export function deathsIn(file: string): number[] {
  try {
    return readFileSync(file, 'utf8').trim().split('\n').map(Number);
  } catch {
    return [];
  }
}

/** Crash points of a runner, laid around its parts. */
export function crashingRunner(parts: RunnerParts, die: Die): RunnerParts {
  const orders = new Map<string, CrashOrder>();
  const pass = (point: CrashPoint, runId: string | undefined) => {
    const order = runId === undefined ? undefined : orders.get(runId);
    if (runId !== undefined && order?.at === point) die(runId, order);
  };
  const { store, bus, tools } = parts;
  /** Runs whose end is stored and not told yet, by session. */
  const ended = new Map<string, string>();
  return {
    ...parts,
    store: {
      ...store,
      runs: {
        ...store.runs,
        async takeLease(runId, ttlMs) {
          const taken = await store.runs.takeLease(runId, ttlMs);
          if (taken.kind !== 'nothing') {
            const order = orderOf(taken.snapshot.principal.metadata);
            if (order !== undefined) orders.set(runId, order);
          }
          if (taken.kind === 'leased') pass('after-claim', runId);
          return taken;
        },
        async leave(batch) {
          const { runId } = batch.run;
          if (batch.to.kind === 'end') pass('before-terminal', runId);
          const left = await store.runs.leave(batch);
          pass(batch.to.kind === 'end' ? 'after-terminal' : 'in-approval', runId);
          if (orders.get(runId)?.at === 'before-ack') ended.set(batch.sessionId, runId);
          return left;
        },
      },
      ledger: {
        ...store.ledger,
        async append(batch) {
          const runId = batch.run?.runId;
          if (gates(batch)) pass('after-gate', runId);
          if (settles(batch)) pass('before-outcome', runId);
          const appended = await store.ledger.append(batch);
          if (batch.events.some(({ type }) => type === 'assistant.delta')) pass('mid-stream', runId);
          if (executes(batch)) pass('after-intent', runId);
          if (settles(batch)) pass('after-outcome', runId);
          return appended;
        },
      },
    },
    bus: {
      ...boundBus(bus),
      publish(push) {
        bus.publish(push);
        pass('before-ack', ended.get(push.sessionId));
      },
    },
    tools: {
      forRun(...given) {
        const own = tools.forRun(...given);
        return {
          ...own,
          async execute(invocation, signal) {
            // For whoever wants to kill the process in the middle of this call.
            process.stdout.write(`executing ${invocation.callId} of ${invocation.runId}\n`);
            const { blockMs } = invocation.principal.metadata;
            if (typeof blockMs === 'number' && invocation.n === 1) setTimeout(() => block(blockMs), 100);
            const execution = await own.execute(invocation, signal);
            pass('after-effect', invocation.runId);
            return execution;
          },
        };
      },
    },
  };
}

/** Crash points of a gateway, laid around its parts. */
export function crashingGateway(parts: GatewayParts, die: Die): GatewayParts {
  const { store } = parts;
  return {
    ...parts,
    store: {
      ...store,
      runs: {
        ...store.runs,
        async accept(input) {
          const accepted = await store.runs.accept(input);
          const order = orderOf(input.metadata);
          if (order?.at === 'after-commit-before-reply') die(input.runId, order);
          return accepted;
        },
      },
    },
  };
}

function orderOf(metadata: JsonObject): CrashOrder | undefined {
  const order = metadata['crash'] as Partial<CrashOrder> | undefined;
  return order?.at !== undefined && Object.hasOwn(CRASH_POINTS, order.at) ? (order as CrashOrder) : undefined;
}

const gates = ({ changes }: AppendBatch) => changes?.calls?.some(({ gated }) => gated !== undefined) === true;

const executes = ({ changes }: AppendBatch) => changes?.executions?.some(({ state }) => state === 'executing') === true;

const settles = ({ events }: { readonly events: readonly NewLedgerEvent[] }) =>
  events.some(({ type }) => type === 'tool.execution_result');

/** Does what a tool of this process might do: keeps the event loop from everything else. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** The bus is an object with state: its functions stay bound to it. */
function boundBus(bus: RunnerParts['bus']): RunnerParts['bus'] {
  return {
    publish: (push) => bus.publish(push),
    publishCancel: (push) => bus.publishCancel(push),
    subscribe: (sessionId, onPush) => bus.subscribe(sessionId, onPush),
    subscribeCancels: (onCancel) => bus.subscribeCancels(onCancel),
    onReconnected: (listener) => bus.onReconnected(listener),
    close: () => bus.close(),
  };
}
