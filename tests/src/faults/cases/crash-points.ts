import { eventually } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { CRASH_POINTS, type CrashPoint, crashing } from '../programs/crash-points.js';

/** A run that passes every place: it streams, asks a person, acts on the world, and answers. */
const script = (at: CrashPoint) => [
  { chunks: ['one ', 'two ', 'three'], chunkDelayMs: 60, toolCalls: [{ name: TOOLS.effectful, arguments: { at } }] },
  ...(at === 'in-approval' ? [{ toolCalls: [{ name: TOOLS.approved, arguments: { at } }] }] : []),
  { text: 'done' },
];

/** Places behind which a call has no outcome although it was begun: there, and only there, it becomes unknown. */
const FLAGGED: ReadonlySet<CrashPoint> = new Set(['after-intent', 'after-effect', 'before-outcome']);

/** R2: a process dies at each named place. */
export const crashPoints: FaultCase = {
  id: 'R2',
  title: 'death at each named place',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const points = Object.keys(CRASH_POINTS) as CrashPoint[];
    const rounds = context.pick({ short: 1, long: 20 });
    const resumeMs: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      // A few at a time: a run that loses its runner to others five times in a row would be given up.
      for (let index = 0; index < points.length; index += 4) {
        const together = points.slice(index, index + 4);
        resumeMs.push(...(await Promise.all(together.map((point) => dieAt(system, point)))));
        await system.whole();
      }
    }
    return { resumeMs, detail: `${points.length} places, ${rounds} ×` };
  },
};

let made = 0;

/** Answers how long it took from the death to the next sign of life of the run. */
async function dieAt(system: FaultSystem, point: CrashPoint): Promise<number> {
  made += 1;
  const run = await system.start({
    script: script(point),
    ...crashing(point),
    idempotencyKey: `crash-${made}`,
  });
  if (point === 'in-approval') await approve(system, run.id);
  const ended = await system.waitForEnd(run.id, 60_000);
  if (ended.status !== 'completed') throw new Error(`${point}: the run is ${ended.status} (${ended.stopReason})`);
  const { rows } = await system.db.query<{ state: string; name: string }>(
    'SELECT state, name FROM tool_calls WHERE run_id = $1',
    [run.id],
  );
  const wanted = FLAGGED.has(point) ? 'unknown' : 'succeeded';
  for (const { name, state } of rows) {
    if (state !== wanted) throw new Error(`${point}: the call of ${name} is ${state}; right is ${wanted}`);
  }
  return resumedAfter(system, run.id);
}

async function approve(system: FaultSystem, runId: string): Promise<void> {
  const parked = await system.waitForRun(runId, ({ status }) => status === 'waiting_approval', 30_000);
  const { approvalId } = parked as unknown as { approvalId: string };
  const { rows } = await system.db.query<{ call_id: string }>(
    'SELECT call_id FROM approval_calls WHERE approval_id = $1',
    [approvalId],
  );
  await eventually(
    async () => {
      const answer = await system.api('POST', `/v1/approvals/${approvalId}/decisions`, {
        decisions: rows.map(({ call_id: callId }) => ({ callId, decision: 'approve' })),
      });
      if (answer.status !== 200) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
    },
    { what: 'the approval to be decided' },
  );
}

/** Milliseconds between the last event of the first attempt and the first event of the second; 0 with one attempt. */
async function resumedAfter({ db }: FaultSystem, runId: string): Promise<number> {
  const { rows } = await db.query<{ ms: number | null }>(
    `SELECT (extract(epoch FROM min(occurred_at) FILTER (WHERE attempt = 2)
       - max(occurred_at) FILTER (WHERE attempt = 1)) * 1000)::float8 AS ms FROM events WHERE run_id = $1`,
    [runId],
  );
  return rows[0]?.ms ?? 0;
}
