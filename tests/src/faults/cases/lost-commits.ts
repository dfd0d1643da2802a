import { eventually } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { expectAnswered, type LoadReport, recovered, startLoad } from '../load.js';
import { lostReplies } from '../lost-replies.js';

/** Statements that commit something: the functions of the store that write, heartbeats, and what Prisma commits. */
const COMMITS =
  /codedock_(?:accept|append|leave|take_lease|hand_back|claim|complete_claim|request_cancel|fence|admit|ring_again)\b|^COMMIT|^UPDATE runs SET lease_until/;

/** D6: PostgreSQL commits and its reply never comes, for each kind of statement that commits. */
export const lostCommits: FaultCase = {
  id: 'D6',
  title: 'the reply to a COMMIT is lost',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const wanted = context.pick({ short: 10, long: 500 });
    // Among many runs one must not lose so many in a row that it counts as one that kills its runners.
    const share = context.pick({ short: 0.2, long: 0.08 });
    const lost = new Map<string, number>();
    const count = () => [...lost.values()].reduce((sum, each) => sum + each, 0);
    let losing = false;
    const filter = lostReplies(
      (statement) => {
        const kind = COMMITS.exec(statement)?.[0];
        if (kind === undefined || !losing || count() >= wanted) return false;
        // A fifth for each kind at most: what is rare is not crowded out.
        return (lost.get(kind) ?? 0) < wanted / 5 && context.random.next() < share;
      },
      (statement) => {
        const kind = COMMITS.exec(statement)?.[0] ?? '';
        lost.set(kind, (lost.get(kind) ?? 0) + 1);
      },
    );
    const system = await context.start({ databaseFilter: filter });
    const first = system.answers.length;
    losing = true;
    const load = startLoad(system, context.pick({ short: 4, long: 16 }), [
      { toolCalls: [{ name: TOOLS.effectful, arguments: {} }] },
      { toolCalls: [{ name: TOOLS.idempotent, arguments: {} }] },
      { text: 'done' },
    ]);
    let loaded: LoadReport;
    try {
      await eventually(() => count() >= wanted, {
        timeoutMs: context.pick({ short: 120_000, long: 1_200_000 }),
        what: 'enough replies to be lost',
      });
    } finally {
      losing = false;
      loaded = await load.stop();
    }
    const recoveryMs = await recovered(system, performance.now());
    expectAnswered(system, first);
    const kinds = [...lost].map(([kind, times]) => `${times} × ${kind.replace('codedock_', '')}`);
    return {
      doubled: loaded.doubled,
      recoveryMs,
      detail: `${count()} replies lost (${kinds.join(', ')}) under ${loaded.runIds.length} runs; clients saw ${loaded.seen}`,
    };
  },
};
