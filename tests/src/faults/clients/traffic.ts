import { eventually } from '@codedock/testkit';
import type { FaultSystem } from '../fault-system.js';
import { type SentRun, sendRun, summed } from './good-client.js';

/** What came of the runs that clients sent. */
export interface TrafficReport {
  /** Every accepted run, all of them ended. */
  readonly runIds: readonly string[];
  /** How many ended in each state, as `state` or `state (reason)`. */
  readonly ends: Readonly<Record<string, number>>;
  /** Answers that were no acceptance, and requests without an answer. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Longest wait for an answer, milliseconds. */
  readonly longestMs: number;
}

/** Clients that send one run after another. */
export interface Traffic {
  /** Runs that have ended so far. */
  readonly ended: number;
  /** Fails when a client has failed. */
  readonly failed: Promise<never>;
  /** Lets the last runs end. */
  stop(): Promise<TrafficReport>;
}

/** One client per session that sends a run, awaits its end and sends the next, until it is stopped. */
export function startTraffic(
  system: Pick<FaultSystem, 'db' | 'key' | 'livingUrls'>,
  sessions: readonly string[],
  body: (lane: number) => Readonly<Record<string, unknown>>,
): Traffic {
  const sent: SentRun[] = [];
  const ends: Record<string, number>[] = [];
  let over = false;
  let turn = 0;
  const url = () => {
    const urls = system.livingUrls();
    turn += 1;
    // While none lives the request is refused, as by a service without endpoints.
    return urls[turn % urls.length] ?? 'http://127.0.0.1:1';
  };
  const lanes = sessions.map(async (sessionId, lane) => {
    while (!over) {
      const accepted = await sendRun({ key: system.key, url }, sessionId, body(lane));
      sent.push(accepted);
      ends.push({ [await endOf(system, accepted.run.id)]: 1 });
    }
  });
  const all = Promise.all(lanes);
  const failed = all.then(() => new Promise<never>(() => undefined));
  failed.catch(() => undefined);
  return {
    get ended() {
      return ends.length;
    },
    failed,
    async stop() {
      over = true;
      await all;
      return {
        runIds: sent.map(({ run }) => run.id),
        ends: summed(ends),
        refusals: summed(sent.map(({ refusals }) => refusals)),
        longestMs: Math.max(0, ...sent.map(({ longestMs }) => longestMs)),
      };
    },
  };
}

/** How a run ended; asked of the database, which no fault of a case keeps from the suite. */
export async function endOf({ db }: Pick<FaultSystem, 'db'>, runId: string, timeoutMs = 180_000): Promise<string> {
  return eventually(
    async () => {
      const { rows } = await db.query<{ status: string; stop_reason: string | null; ended: boolean }>(
        'SELECT status, stop_reason, ended_at IS NOT NULL AS ended FROM runs WHERE id = $1',
        [runId],
      );
      const [run] = rows;
      if (run === undefined) throw new Error('it is gone');
      if (!run.ended) throw new Error(`it is ${run.status}`);
      return run.status === run.stop_reason ? run.status : `${run.status} (${run.stop_reason})`;
    },
    { timeoutMs, intervalMs: 250, what: `the end of run ${runId}` },
  );
}
