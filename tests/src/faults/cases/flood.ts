import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@codedock/testkit';
import { percentile, rounded } from '../../bench/statistics.js';
import { type System, startSystem } from '../../system.js';
import { type CaseContext, type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';

const QUIET_TENANTS = 8;
/** Clients of the tenant that floods; each of the others has one. */
const FLOODING_CLIENTS = 24;
/** A short flood has nine runs for each quiet tenant: the index is coarse, and without fairness about 0.3. */
const LEAST_FAIRNESS = { short: 0.8, long: 0.95 } as const;

interface Tenant {
  readonly id: string;
  readonly key: string;
  /** A session for each of its runs. */
  readonly sessions: readonly string[];
  readonly clients: number;
}

/** What came of sending runs. */
interface Sent {
  readonly runIds: string[];
  /** From sending to the answer 201, milliseconds. */
  readonly acceptMs: number[];
  refused: number;
}

/**
 * L1: nine tenants send more than can be served at once, one of them nine tenths of it. Nothing takes the runs until all
 * are accepted, so that what is served when is decided by the queue alone.
 */
export const flood: FaultCase = {
  id: 'L1',
  title: 'a flood of runs, nine tenths of one tenant',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await startSystem({
      profile: context.profile,
      // Gateways know of each other's runs after a second only: a short flood would be judged by that second.
      gateways: context.pick({ short: 1, long: 2 }),
      runners: 0,
      env: { CODEDOCK_LOG_LEVEL: 'warn' },
    });
    try {
      return await floodIt(context, system);
    } finally {
      await system.stop();
    }
  },
};

async function floodIt(context: CaseContext, system: System): Promise<CaseReport> {
  const total = context.pick({ short: 720, long: 20_000 });
  const quietRuns = Math.floor(total / 10 / QUIET_TENANTS);
  const tenants = await Promise.all([
    makeTenant(system, 'flooding', total - quietRuns * QUIET_TENANTS, FLOODING_CLIENTS),
    ...Array.from({ length: QUIET_TENANTS }, (_, index) => makeTenant(system, `quiet-${index}`, quietRuns, 1)),
  ]);
  const sent: Sent = { runIds: [], acceptMs: [], refused: 0 };
  const began = performance.now();
  await Promise.all(tenants.map((tenant) => sendAll(system, tenant, sent)));
  const acceptSeconds = (performance.now() - began) / 1_000;

  const runners = await Promise.all([system.startRunner(), system.startRunner()]);
  await eventually(
    async () => {
      const { rows } = await system.db.query<{ open: number }>(
        "SELECT count(*)::int AS open FROM runs WHERE status IN ('pending', 'queued', 'running', 'waiting_approval')",
      );
      if (rows[0]?.open !== 0) throw new Error(`${rows[0]?.open} runs are open`);
    },
    { timeoutMs: context.pick({ short: 180_000, long: 3_600_000 }), intervalMs: 250, what: 'the flood to be drained' },
  );
  const judged = await judge(system, sent);
  const fairness = jain(await servedTogether(system, tenants));
  const least = context.pick(LEAST_FAIRNESS);
  if (fairness < least) throw new Error(`Jain's index is ${rounded(fairness)}, below ${least}`);
  context.note(
    `accepted ${sent.runIds.length} at ${rounded(sent.runIds.length / acceptSeconds)}/s, p50 ${rounded(percentile(sent.acceptMs, 0.5))} ms, p99 ${rounded(percentile(sent.acceptMs, 0.99))} ms, ${sent.refused} refused first; drained at ${rounded(judged.perSecond)}/s by ${runners.length} runners; ${judged.rung} rung again; Jain ${rounded(fairness)}`,
  );
  const { lost, doubled } = judged;
  return { lost, doubled, detail: `${total} runs, 9 tenants, Jain ${rounded(fairness)}` };
}

async function makeTenant(system: System, name: string, runs: number, clients: number): Promise<Tenant> {
  const key = await system.createKey({ tenant: name, scopes: ['runs'] });
  const hash = createHash('sha256').update(key).digest('hex');
  const { rows } = await system.db.query<{ id: string; tenant_id: string }>(
    `INSERT INTO sessions (id, tenant_id, created_by)
     SELECT gen_random_uuid(), k.tenant_id, k.id FROM api_keys k, generate_series(1, $2) WHERE k.hash = $1
     RETURNING id, tenant_id`,
    [hash, runs],
  );
  return { id: rows[0]?.tenant_id ?? '', key, sessions: rows.map(({ id }) => id), clients };
}

async function sendAll(system: System, { key, sessions, clients }: Tenant, sent: Sent): Promise<void> {
  const waiting = [...sessions];
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const url = system.urls[client % system.urls.length];
      for (let session = waiting.pop(); session !== undefined; session = waiting.pop()) {
        await sendOne(`${url}/v1/sessions/${session}/runs`, key, sent);
      }
    }),
  );
}

/** Sends a run until it is accepted; what is refused is sent again when the answer says, as the same request. */
async function sendOne(url: string, key: string, sent: Sent): Promise<void> {
  const idempotencyKey = randomUUID();
  for (;;) {
    const began = performance.now();
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': idempotencyKey,
      },
      body: '{"content":"hello"}',
    });
    const body = (await response.json()) as { runId?: string };
    if (response.status === 201 && body.runId !== undefined) {
      sent.acceptMs.push(performance.now() - began);
      sent.runIds.push(body.runId);
      return;
    }
    if (response.status !== 429) throw new Error(`a run was answered ${response.status} ${JSON.stringify(body)}`);
    sent.refused += 1;
    await sleep(Number(response.headers.get('retry-after')) * 1_000);
  }
}

/** Every accepted run has one end, nothing else was created, and every session's ledger is whole. */
async function judge(system: System, { runIds }: Sent) {
  const { rows } = await system.db.query<Record<'ended' | 'runs' | 'ends' | 'torn' | 'seconds' | 'rung', number>>(
    `SELECT (SELECT count(*)::int FROM runs WHERE id = ANY ($1::uuid[]) AND status = 'completed') AS ended,
       (SELECT count(*)::int FROM runs) AS runs,
       (SELECT count(*)::int FROM events WHERE type LIKE 'run.%' AND type IN
         ('run.completed', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.blocked')) AS ends,
       (SELECT count(*)::int FROM sessions s WHERE s.last_seq <> (SELECT count(*) FROM events e
         WHERE e.session_id = s.id)) AS torn,
       (SELECT sum(doorbell - 1)::int FROM runs) AS rung,
       (SELECT extract(epoch FROM max(ended_at) - min(started_at))::float8 FROM runs) AS seconds`,
    [runIds],
  );
  const found = rows[0] ?? { ended: 0, runs: 0, ends: 0, torn: 0, seconds: 0, rung: 0 };
  if (found.torn > 0) throw new Error(`the ledgers of ${found.torn} sessions have gaps`);
  const accepted = new Set(runIds).size;
  return {
    lost: accepted - found.ended,
    doubled: Math.max(0, found.runs - accepted) + Math.max(0, found.ends - found.runs) + (runIds.length - accepted),
    perSecond: found.ended / found.seconds,
    rung: found.rung,
  };
}

/** How many runs of each tenant had begun when the first of them had nothing more to begin. */
async function servedTogether(system: System, tenants: readonly Tenant[]): Promise<readonly number[]> {
  const { rows } = await system.db.query<{ tenant_id: string }>('SELECT tenant_id FROM runs ORDER BY started_at, id');
  const served = new Map(tenants.map(({ id }) => [id, 0]));
  const all = new Map(tenants.map(({ id, sessions }) => [id, sessions.length]));
  for (const { tenant_id } of rows) {
    const count = (served.get(tenant_id) ?? 0) + 1;
    served.set(tenant_id, count);
    if (count === all.get(tenant_id)) break;
  }
  return [...served.values()];
}

/** Jain's index: 1 when all got the same, 1/n when one got everything. */
function jain(shares: readonly number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0);
  const squares = shares.reduce((total, share) => total + share * share, 0);
  return sum ** 2 / (shares.length * squares);
}
