import { randomUUID } from 'node:crypto';
import type { RunView } from '../system.js';
import type { FaultSystem, RunInput, SeenAnswer } from './fault-system.js';

/** Runs that are started one after another in some lanes, as good clients do, until it is stopped. */
export interface Load {
  /** Runs that have completed so far. */
  completed(): number;
  /** Starts no further run; resolves when those under way have completed, rejects when one ended otherwise. */
  stop(): Promise<LoadReport>;
}

/** What the clients of a load saw. */
export interface LoadReport {
  readonly runIds: readonly string[];
  /** Runs and messages beyond the one of each request, in the sessions of the load. */
  readonly doubled: number;
  /** `12 × 503, 1 × none, the longest answer 1,020 ms` */
  readonly seen: string;
}

/** A model call with a tool call, then an answer. */
const SCRIPT: RunInput['script'] = [{ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'done' }];

/**
 * Begins to start runs, each in a new session and under an idempotency key. `mayEnd` says which other ends than completion
 * are right; default: none. `attend` does what each run needs of a person.
 */
export function startLoad(
  system: FaultSystem,
  lanes: number,
  script: RunInput['script'] = SCRIPT,
  mayEnd: (run: RunView) => boolean = () => false,
  attend: (run: RunView) => Promise<void> = async () => undefined,
): Load {
  const runIds: string[] = [];
  const first = system.answers.length;
  let over = false;
  const lane = async () => {
    while (!over) {
      const run = await system.start({ script, idempotencyKey: randomUUID() });
      await attend(run);
      const ended = await system.waitForEnd(run.id);
      if (ended.status !== 'completed' && !mayEnd(ended))
        throw new Error(`run ${run.id} is ${ended.status} (${ended.stopReason})`);
      runIds.push(run.id);
    }
  };
  const driving = Promise.allSettled(Array.from({ length: lanes }, lane));
  return {
    completed: () => runIds.length,
    async stop() {
      over = true;
      for (const lane of await driving) if (lane.status === 'rejected') throw lane.reason;
      return { runIds, doubled: await doubledBy(system, runIds), seen: summaryOf(system.answers.slice(first)) };
    },
  };
}

/** What a gate says that could not ask. */
export const UNASKED: ReadonlySet<unknown> = new Set(['gate_unavailable', 'gate_timeout']);

/** A run that came to a gate while nobody could be asked: it is ended, not let through. */
export const failedClosed = ({ status, stopReason }: RunView): boolean =>
  status === 'blocked' && UNASKED.has(stopReason);

/** Each session of a load got one request: what is in it beyond one run and one message of a user. */
async function doubledBy({ db }: FaultSystem, runIds: readonly string[]): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `WITH own AS (SELECT DISTINCT session_id FROM runs WHERE id = ANY ($1))
     SELECT ((SELECT count(*) FROM runs r JOIN own USING (session_id))
       + (SELECT count(*) FROM messages m JOIN own USING (session_id) WHERE m.role = 'user')
       - 2 * (SELECT count(*) FROM own))::int AS n`,
    [runIds],
  );
  return rows[0]?.n ?? 0;
}

/** What came of requests, by status, but those that went well. */
export function summaryOf(answers: readonly SeenAnswer[]): string {
  const odd = answers.filter(({ status }) => status !== 201).map(({ status }) => status ?? 'no answer');
  const counted = [...new Set(odd)].map((status) => `${odd.filter((each) => each === status).length} × ${status}`);
  const longest = Math.round(Math.max(0, ...answers.map(({ ms }) => ms)));
  return [...counted, `the longest answer ${longest} ms`].join(', ');
}

/** Milliseconds from `since` (of `performance.now()`) until a run that is started now has been accepted and completed. */
export async function recovered(system: FaultSystem, since: number): Promise<number> {
  const run = await system.start({ script: SCRIPT, idempotencyKey: randomUUID() });
  const { status, stopReason } = await system.waitForEnd(run.id, 60_000);
  if (status !== 'completed') throw new Error(`after the fault run ${run.id} is ${status} (${stopReason})`);
  return performance.now() - since;
}

/** Throws when a request since answer number `first` got anything but success or a refusal that invites to come back. */
export function expectAnswered({ answers, gateways }: FaultSystem, first: number): void {
  const right = new Set<number | undefined>([201, 409, 429, 503]);
  const wrong = answers.slice(first).filter(({ status }) => !right.has(status));
  if (wrong.length === 0) return;
  const causes = gateways
    .flatMap((gateway) => gateway.output().split('\n'))
    .filter((line) => /"level":"error"/.test(line))
    // A refusal for now is right, and most of what is logged.
    .filter((line) => !line.includes('"code":"store_unavailable"'));
  throw new Error(
    [`clients saw ${summaryOf(wrong)}; right is 201 or a refusal for now`, ...causes.slice(-3)].join('\n'),
  );
}
