import { eventually } from '@codedock/testkit';
import type { RunView } from '../system.js';
import { type FaultSystem, LEASE_MS } from './fault-system.js';
import { countRunOut, leasesIn } from './programs/told-leases.js';

/** A tool call as its row says now. */
export interface SeenCall {
  readonly id: string;
  readonly name: string;
  readonly state: string;
}

/** The calls of a run in order. */
export async function callsOf({ db }: Pick<FaultSystem, 'db'>, runId: string): Promise<readonly SeenCall[]> {
  const { rows } = await db.query<SeenCall>(
    'SELECT id, name, state FROM tool_calls WHERE run_id = $1 ORDER BY created_at, index',
    [runId],
  );
  return rows;
}

/** A run whose tool has acted and waits for the sink to let it go. */
export interface ActingRun {
  readonly run: RunView;
  readonly call: SeenCall;
}

/** Starts a run whose tool acts and waits. Once more where a runner that got no time lost the run before it was seen. */
export async function startActing(system: FaultSystem, tool: string): Promise<ActingRun> {
  for (let tries = 0; tries < 5; tries += 1) {
    const run = await system.start({
      script: [{ toolCalls: [{ name: tool, arguments: { hold: true } }] }, { text: 'done' }],
    });
    const call = await actingOrEnded(system, run.id);
    if (call !== undefined) return { run, call };
  }
  throw new Error(`no call of ${tool} was seen to act`);
}

/**
 * A run's call that is being executed, once its effect has happened; undefined when the run ends before, as one does
 * whose runner was killed meanwhile.
 */
export async function actingOrEnded(system: FaultSystem, runId: string): Promise<SeenCall | undefined> {
  const { seen } = await eventually(
    async () => {
      const call = (await callsOf(system, runId)).find(({ state }) => state === 'executing');
      if (call !== undefined) {
        const acted = (await system.sink.effects()).some(({ callId }) => callId === call.id);
        return acted && system.runnerOf(call.id) !== undefined && { seen: call };
      }
      const { rows } = await system.db.query('SELECT 1 FROM runs WHERE id = $1 AND ended_at IS NOT NULL', [runId]);
      return rows.length > 0 && { seen: undefined };
    },
    { timeoutMs: 90_000, intervalMs: 100, what: `a call of run ${runId} to act` },
  );
  return seen;
}

/** The first event of a later attempt. */
export interface SignOfLife {
  /** Milliseconds since the moment that was asked about. */
  readonly ms: number;
  readonly attempt: number;
}

/**
 * The first sign, after a moment (of the machine's clock), that somebody goes on with a run: an event of a later attempt.
 * Undefined when there is none.
 */
export async function signOfLife(
  { db }: Pick<FaultSystem, 'db'>,
  runId: string,
  moment: number,
): Promise<SignOfLife | undefined> {
  const { rows } = await db.query<SignOfLife>(
    `WITH own AS (SELECT attempt, extract(epoch FROM occurred_at)::float8 * 1000 - $2 AS ms FROM events WHERE run_id = $1)
     SELECT ms, attempt FROM own
     WHERE ms > 0 AND attempt > (SELECT coalesce(max(attempt), 0) FROM own WHERE ms <= 0 AND attempt IS NOT NULL)
     ORDER BY ms LIMIT 1`,
    [runId, moment],
  );
  return rows[0];
}

/** Milliseconds from a moment (of the machine's clock) to the first sign of life of a run. */
export async function resumedAfter(
  system: Pick<FaultSystem, 'db'>,
  runId: string,
  moment: number,
): Promise<number | undefined> {
  return (await signOfLife(system, runId, moment))?.ms;
}

/**
 * How many leases of a run ran out before another attempt took it: their runner was dead, or got no time, which is the
 * machine's doing and legal. A run that was taken from a runner whose lease was alive does not count.
 */
export function leasesRunOut({ runners }: Pick<FaultSystem, 'runners'>, runId: string): number {
  return countRunOut(leasesIn(outputsOf(runners), runId), LEASE_MS);
}

/** Whether a runner that held the run has died since. */
export function lostItsRunner({ runners }: Pick<FaultSystem, 'runners'>, runId: string): boolean {
  return leasesIn(outputsOf(runners.filter((runner) => runner.hasExited())), runId).size > 0;
}

const outputsOf = (runners: FaultSystem['runners']) => runners.map((runner) => runner.stdout());

/**
 * Approves everything that a run waits for, once it waits. Sent again until it is answered as done: the same decision once
 * more is right, and so is `approval_decided` where the calls are approved. Throws at any answer that is no refusal for now.
 */
export async function approveAll(system: FaultSystem, runId: string): Promise<void> {
  const approval = await openApproval(system, runId);
  const wrong = await eventually(
    async () => {
      const answer = await decide(system, approval, 'approve');
      if (answer === 200) return { answer: undefined };
      if (answer === 409 && (await isApproved(system, approval))) return { answer: undefined };
      if (answer !== 409 && answer !== 429 && answer !== 503) return { answer };
      throw new Error(`status ${answer}`);
    },
    { timeoutMs: 60_000, what: 'the approval to be decided' },
  );
  if (wrong.answer !== undefined) throw new Error(`a decision for run ${runId} is answered with ${wrong.answer}`);
}

/** Whether every call of an approval is approved, as its rows say. */
async function isApproved({ db }: Pick<FaultSystem, 'db'>, { id }: SeenApproval): Promise<boolean> {
  const { rows } = await db.query(
    "SELECT 1 FROM approval_calls WHERE approval_id = $1 AND decision IS DISTINCT FROM 'approve'",
    [id],
  );
  return rows.length === 0;
}

/** A question for a person, with the calls it is about. */
export interface SeenApproval {
  readonly id: string;
  readonly callIds: readonly string[];
}

/** The approval that a run waits for, once it waits. */
export async function openApproval(system: FaultSystem, runId: string): Promise<SeenApproval> {
  await system.waitForRun(runId, ({ status }) => status === 'waiting_approval', 90_000);
  const { rows } = await system.db.query<{ id: string; calls: string[] }>(
    `SELECT a.id, array_agg(c.call_id::text) AS calls FROM approvals a JOIN approval_calls c ON c.approval_id = a.id
     WHERE a.run_id = $1 AND a.status = 'open' GROUP BY a.id`,
    [runId],
  );
  const [open] = rows;
  if (open === undefined) throw new Error(`run ${runId} waits for no open approval`);
  return { id: open.id, callIds: open.calls };
}

/** Decides all calls of an approval alike; answers the status. */
export async function decide(
  { api }: Pick<FaultSystem, 'api'>,
  { id, callIds }: SeenApproval,
  decision: 'approve' | 'deny',
): Promise<number> {
  const { status } = await api('POST', `/v1/approvals/${id}/decisions`, {
    decisions: callIds.map((callId) => ({ callId, decision })),
  });
  return status;
}

/** Ends a run and answers the milliseconds until it had ended, with the state that won. */
export async function cancel(
  { api }: Pick<FaultSystem, 'api'>,
  runId: string,
): Promise<{ readonly ms: number; readonly status: string }> {
  const began = performance.now();
  const answer = await api<{ status: string }>('POST', `/v1/runs/${runId}/cancel`);
  const ms = performance.now() - began;
  if (answer.status !== 200) throw new Error(`cancel: ${answer.status} ${JSON.stringify(answer.body)}`);
  return { ms, status: answer.body.status };
}
