import type { JsonObject, NewLedgerEvent } from '@codedock/domain';
import type { GatewayParts } from '@codedock/gateway';
import type { RunnerParts } from '@codedock/runner';
import type { AppendBatch, LeaveBatch } from '@codedock/store';

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
  'before-ack': 'the end is stored and told, the job is still in the queue',
} as const;

/** Name of a place where a process dies. */
export type CrashPoint = keyof typeof CRASH_POINTS;

/** What a run's metadata says: `at` this place the process dies while the attempt is not above `attempts` (default 1). */
export interface CrashOrder {
  readonly at: CrashPoint;
  readonly attempts?: number;
}

/** The metadata of a run whose process dies; any process that passes the place with it. */
export function crashing(at: CrashPoint, attempts = 1): { readonly metadata: { readonly crash: CrashOrder } } {
  return { metadata: { crash: { at, attempts } } };
}

/** The metadata of a run whose first execution of a tool blocks the runner's event loop for so many milliseconds. */
export function blocking(ms: number): { readonly metadata: { readonly blockMs: number } } {
  return { metadata: { blockMs: ms } };
}

/** Where a run is that passes a place: its fence, and what its creator wrote. */
interface Passing {
  readonly runId: string;
  readonly attempt: number;
}

/** Dies like a process that the kernel kills: nothing is flushed, nothing is handed back. */
export type Die = () => never;

/** Kills the own process. */
export const die: Die = () => {
  process.kill(process.pid, 'SIGKILL');
  // The signal to oneself is delivered before the call returns; what follows is for the compiler.
  throw new Error('killed');
};

/** Crash points of a runner, laid around its parts. */
export function crashingRunner(parts: RunnerParts, dieNow: Die = die): RunnerParts {
  const orders = new Map<string, CrashOrder>();
  const attempts = new Map<string, number>();
  const pass = (point: CrashPoint, { runId, attempt }: Passing) => {
    const order = orders.get(runId);
    if (order?.at === point && attempt <= (order.attempts ?? 1)) dieNow();
  };
  const { store, bus, tools } = parts;
  const ended = new Map<string, Passing>();
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
            attempts.set(runId, taken.snapshot.attempt);
          }
          if (taken.kind === 'leased') pass('after-claim', { runId, attempt: taken.snapshot.attempt });
          return taken;
        },
        async leave(batch) {
          const at = { runId: batch.run.runId, attempt: batch.run.token };
          if (batch.to.kind === 'end') pass('before-terminal', at);
          const left = await store.runs.leave(batch);
          pass(batch.to.kind === 'end' ? 'after-terminal' : 'in-approval', at);
          if (orders.get(at.runId)?.at === 'before-ack') ended.set(batch.sessionId, at);
          return left;
        },
      },
      ledger: {
        ...store.ledger,
        async append(batch) {
          const at = passingOf(batch);
          if (at === undefined) return store.ledger.append(batch);
          if (gates(batch)) pass('after-gate', at);
          if (settles(batch)) pass('before-outcome', at);
          const appended = await store.ledger.append(batch);
          if (batch.events.some(({ type }) => type === 'assistant.delta')) pass('mid-stream', at);
          if (executes(batch)) pass('after-intent', at);
          if (settles(batch)) pass('after-outcome', at);
          return appended;
        },
      },
    },
    bus: {
      ...boundBus(bus),
      publish(push) {
        bus.publish(push);
        const at = ended.get(push.sessionId);
        if (at !== undefined) pass('before-ack', at);
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
            pass('after-effect', { runId: invocation.runId, attempt: attempts.get(invocation.runId) ?? 1 });
            return execution;
          },
        };
      },
    },
  };
}

/** Crash points of a gateway, laid around its parts. */
export function crashingGateway(parts: GatewayParts, dieNow: Die = die): GatewayParts {
  const { store } = parts;
  return {
    ...parts,
    store: {
      ...store,
      runs: {
        ...store.runs,
        async accept(input) {
          const accepted = await store.runs.accept(input);
          if (orderOf(input.metadata)?.at === 'after-commit-before-reply') dieNow();
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

function passingOf({ run }: AppendBatch): Passing | undefined {
  return run?.token === undefined ? undefined : { runId: run.runId, attempt: run.token };
}

const gates = ({ changes }: AppendBatch | LeaveBatch) =>
  changes?.calls?.some(({ gated }) => gated !== undefined) === true;

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
