import { eventually } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { expectAnswered, type LoadReport, recovered, startLoad, summaryOf } from '../load.js';
import { lostReplies } from '../lost-replies.js';
import { approveAll } from '../observing.js';

/** Statements that commit something: the functions of the store that write, heartbeats, and what Prisma commits. */
const COMMITS =
  /codedock_(?:accept|append|leave|take_lease|hand_back|claim|complete_claim|request_cancel|fence|admit|ring_again|decide)\b|^COMMIT|^UPDATE runs SET lease_until/;
/** The statement of a person's decision: one of a few, beside hundreds of the others. */
const DECISION = 'codedock_decide';

/** D6: PostgreSQL commits and its reply never comes, for each kind of statement that commits. */
export const lostCommits: FaultCase = {
  id: 'D6',
  title: 'the reply to a COMMIT is lost',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const wanted = context.pick({ short: 10, long: 300 });
    // Among many runs one must not lose so many in a row that it counts as one that kills its runners.
    const share = context.pick({ short: 0.2, long: 0.08 });
    const lost = new Map<string, number>();
    const timesOf = (kind: string) => lost.get(kind) ?? 0;
    const count = () => [...lost.values()].reduce((sum, each) => sum + each, 0);
    const leastDecisions = context.pick({ short: 1, long: 10 });
    let losing = false;
    let decisions = 0;
    const filter = lostReplies(
      (statement) => {
        const kind = COMMITS.exec(statement)?.[0];
        if (kind === undefined || !losing) return false;
        // Not crowded out by the others; every second one, so that a decision sent again is answered.
        if (kind === DECISION) return timesOf(kind) < leastDecisions && decisions++ % 2 === 0;
        // A fifth for each kind at most: what is rare is not crowded out.
        return count() < wanted && timesOf(kind) < wanted / 5 && context.random.next() < share;
      },
      (statement) => {
        const kind = COMMITS.exec(statement)?.[0] ?? '';
        lost.set(kind, timesOf(kind) + 1);
      },
    );
    const system = await context.start({ databaseFilter: filter });
    const first = system.answers.length;
    losing = true;
    const load = startLoad(system, context.pick({ short: 4, long: 16 }) - 1, [
      { toolCalls: [{ name: TOOLS.effectful, arguments: {} }] },
      { toolCalls: [{ name: TOOLS.idempotent, arguments: {} }] },
      { text: 'done' },
    ]);
    const asking = startLoad(
      system,
      1,
      [{ toolCalls: [{ name: TOOLS.approved, arguments: {} }] }, { text: 'done' }],
      undefined,
      (run) => approveAll(system, run.id),
    );
    let loaded: readonly LoadReport[];
    try {
      await eventually(() => count() >= wanted && timesOf(DECISION) >= leastDecisions, {
        timeoutMs: context.pick({ short: 240_000, long: 1_200_000 }),
        what: 'enough replies to be lost',
      });
    } finally {
      losing = false;
      loaded = await Promise.all([load.stop(), asking.stop()]);
    }
    const recoveryMs = await recovered(system, performance.now());
    expectAnswered(system, first);
    const runIds = loaded.flatMap((each) => each.runIds);
    const kinds = [...lost].map(([kind, times]) => `${times} × ${kind.replace('codedock_', '')}`);
    return {
      doubled: loaded.reduce((sum, { doubled }) => sum + doubled, 0) + (await decidedTwice(system, runIds)),
      recoveryMs,
      detail: `${count()} replies lost (${kinds.join(', ')}) under ${runIds.length} runs; clients saw ${summaryOf(system.answers.slice(first))}`,
    };
  },
};

/** Decisions beyond the one of each approval. Throws when one was lost: a client was told of each. */
async function decidedTwice({ db }: FaultSystem, runIds: readonly string[]): Promise<number> {
  const { rows } = await db.query<{ lost: number; doubled: number }>(
    `SELECT (count(*) FILTER (WHERE a.status <> 'decided' OR a.told = 0))::int AS lost,
       coalesce(sum(greatest(a.told - 1, 0)), 0)::int AS doubled
     FROM (SELECT a.status, (SELECT count(*) FROM events e WHERE e.run_id = a.run_id AND e.type = 'tool.approval_decided'
         AND e.payload ->> 'approvalId' = a.id::text) AS told
       FROM approvals a WHERE a.run_id = ANY ($1)) a`,
    [runIds],
  );
  const { lost = 0, doubled = 0 } = rows[0] ?? {};
  if (lost > 0) throw new Error(`${lost} decisions are lost`);
  return doubled;
}
