import { createHash, randomBytes } from 'node:crypto';
import os from 'node:os';
import { eventually } from '@codedock/testkit';
import { Redis } from 'ioredis';
import { apiOf } from '../../api.js';
import { percentile, rounded } from '../../bench/statistics.js';
import { type System, startSystem } from '../../system.js';
import type { History, Recording } from '../checker/history.js';
import { readHistory } from '../checker/read-history.js';
import { type FloodingTenant, floodFrom } from '../clients/flooding.js';
import { type CaseContext, type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { watchMemory } from '../memory.js';

const QUIET_TENANTS = 8;
/** Longest time to send or to drain a flood, on a busy machine. */
const LONGEST_MS = 3_600_000;
/** Clients of the tenant that floods; each of the others has one. */
const FLOODING_CLIENTS = 24;
/**
 * How many runs: as many as a machine with so many cores serves in its share of the tier's time; `--runs` says otherwise. Two
 * cores that serve both profiles send and drain about 60 a second each.
 */
const RUNS = { short: 720, long: os.availableParallelism() >= 8 ? 100_000 : 20_000 } as const;
/** From so many on Jain's index has to be 0.95. With nine runs of each quiet tenant it is coarse; without fairness it is 0.3. */
const MANY_RUNS = 5_000;
/** Up to so many runs the checker judges the history, too: with its events, that of more does not fit into memory. */
const MOST_JUDGED = 20_000;
/** What a service may hold in memory, whatever is sent. */
const MOST_MIB = 512;
/** What a queued run may take in Redis. */
const MOST_REDIS_BYTES = 2_048;

interface Tenant extends FloodingTenant {
  readonly id: string;
  readonly name: string;
}

/**
 * L1: nine tenants send more than can be served at once, one of them nine tenths of it. Nothing takes the runs until all
 * are accepted, so that what is served when is decided by the queue alone. Then as many are queued as may be, and the next
 * one is refused.
 */
export const flood: FaultCase = {
  id: 'L1',
  title: 'a flood of runs, nine tenths of one tenant',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const total = context.runs ?? context.pick(RUNS);
    const secrets = {
      CODEDOCK_INTERNAL_TOKEN: randomBytes(24).toString('hex'),
      CODEDOCK_CAPABILITY_KEY: randomBytes(32).toString('hex'),
    };
    const system = await startSystem({
      profile: context.profile,
      // Gateways know of each other's runs after a second only: a short flood would be judged by that second.
      gateways: context.pick({ short: 1, long: 2 }),
      runners: 0,
      env: { ...secrets, CODEDOCK_LOG_LEVEL: 'warn', CODEDOCK_MAX_QUEUED_RUNS: String(total) },
    });
    try {
      return await floodIt(context, system, total, secrets);
    } finally {
      await system.stop();
    }
  },
};

async function floodIt(
  context: CaseContext,
  system: System,
  total: number,
  secrets: Readonly<Record<string, string>>,
): Promise<CaseReport> {
  const quietRuns = Math.floor(total / 10 / QUIET_TENANTS);
  const tenants = await Promise.all([
    makeTenant(system, 'flooding', total - quietRuns * QUIET_TENANTS, FLOODING_CLIENTS),
    ...Array.from({ length: QUIET_TENANTS }, (_, index) => makeTenant(system, `quiet-${index}`, quietRuns, 1)),
  ]);
  const memory = watchMemory(() => [...system.gateways, ...system.runners]);
  const redisBefore = await redisBytes(system);
  const began = performance.now();
  const order = { tenants, urls: system.urls };
  const sent = await floodFrom(context.pick({ short: 1, long: 2 }), order, LONGEST_MS);
  const acceptSeconds = (performance.now() - began) / 1_000;
  const redisPerRun = ((await redisBytes(system)) - redisBefore) / total;
  const beyond = await untilRefused(system, tenants.at(-1) as Tenant);
  const accepted = [...sent.runIds, ...beyond];

  const runners = await Promise.all([system.startRunner(), system.startRunner()]);
  await eventually(
    async () => {
      // Two looks into indexes: counting them all, again and again, would be most of what the server does.
      const { rows } = await system.db.query<{ open: boolean }>(
        `SELECT EXISTS (SELECT 1 FROM runs WHERE status IN ('queued', 'running'))
           OR EXISTS (SELECT 1 FROM runs WHERE status = 'pending') AS open`,
      );
      if (rows[0]?.open !== false) throw new Error('runs are open');
    },
    { timeoutMs: LONGEST_MS, intervalMs: 250, what: 'the flood to be drained' },
  );
  if (total <= MOST_JUDGED) {
    const history = await historyOf(system, tenants, secrets);
    const served = new Set(history.runs.map(({ tenantId }) => tenantId)).size;
    if (served !== tenants.length) throw new Error(`${served} tenants have runs; right is ${tenants.length}`);
    context.judge({ ...history, accepted });
  }
  const judged = await judge(system, accepted);
  const fairness = jain(await servedTogether(system, tenants));
  const least = total < MANY_RUNS ? 0.8 : 0.95;
  if (fairness < least) throw new Error(`Jain's index is ${rounded(fairness)}, below ${least}`);
  const resident = memory.stop();
  const { runIds, acceptMs, refused } = sent;
  context.note(
    `${context.profile}: accepted ${runIds.length} at ${rounded(runIds.length / acceptSeconds)}/s, p50 ${rounded(percentile(acceptMs, 0.5))} ms, p99 ${rounded(percentile(acceptMs, 0.99))} ms, ${refused} refused first, ${beyond.length} beyond ${total} before the queue was known to be full; drained at ${rounded(judged.perSecond)}/s by ${runners.length} runners; ${judged.rung} rung again; Jain ${rounded(fairness)}; at most ${[...resident].map(([name, mib]) => `${name} ${mib} MiB`).join(', ')}${context.profile === 'redis' ? `; ${Math.round(redisPerRun)} bytes a run in Redis` : ''}`,
  );
  const fat = [...resident].filter(([, mib]) => mib > MOST_MIB).map(([name, mib]) => `${name} with ${mib} MiB`);
  if (fat.length > 0) throw new Error(`more than ${MOST_MIB} MiB are held by ${fat.join(', ')}`);
  if (redisPerRun > MOST_REDIS_BYTES) throw new Error(`a queued run takes ${Math.round(redisPerRun)} bytes in Redis`);
  const { lost, doubled } = judged;
  return { lost, doubled, detail: `${total} runs, 9 tenants, Jain ${rounded(fairness)}` };
}

/** Bytes that Redis holds; 0 where there is none. */
async function redisBytes({ queueUrl }: System): Promise<number> {
  if (!queueUrl.startsWith('redis')) return 0;
  const client = new Redis(queueUrl, { maxRetriesPerRequest: 1 });
  try {
    return Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))?.[1] ?? 0);
  } finally {
    client.disconnect();
  }
}

async function makeTenant(system: System, name: string, runs: number, clients: number): Promise<Tenant> {
  const key = await system.createKey({ tenant: name, scopes: ['runs'] });
  return { name, key, clients, ...(await addSessions(system, key, runs)) };
}

async function addSessions(
  system: System,
  key: string,
  count: number,
): Promise<{ readonly id: string; readonly sessions: readonly string[] }> {
  const hash = createHash('sha256').update(key).digest('hex');
  const { rows } = await system.db.query<{ id: string; tenant_id: string }>(
    `INSERT INTO sessions (id, tenant_id, created_by)
     SELECT gen_random_uuid(), k.tenant_id, k.id FROM api_keys k, generate_series(1, $2) WHERE k.hash = $1
     RETURNING id, tenant_id`,
    [hash, count],
  );
  return { id: rows[0]?.tenant_id ?? '', sessions: rows.map(({ id }) => id) };
}

/**
 * Sends one more run to every gateway until it is refused, and throws when anything comes of the refused one. Answers the
 * ids of those that were accepted instead: a gateway knows at once of all that it took itself, and of what another one took
 * once it has taken one more and looked.
 */
async function untilRefused(system: System, { key }: Tenant): Promise<readonly string[]> {
  const accepted: string[] = [];
  for (const url of system.urls) {
    const { status, headers, body, sessionId } = await eventually(
      async () => {
        const [sessionId = ''] = (await addSessions(system, key, 1)).sessions;
        const answer = await apiOf(url, key)<Refusal>('POST', `/v1/sessions/${sessionId}/runs`, { content: 'hello' });
        if (answer.status !== 201) return { ...answer, sessionId };
        accepted.push(answer.body.runId ?? '');
        return false;
      },
      { timeoutMs: 60_000, intervalMs: 1_000, what: 'a run beyond those that may be queued to be refused' },
    );
    const retryAfter = Number(headers.get('retry-after') ?? 0);
    if (status !== 429 || body.code !== 'rate_limited' || retryAfter < 1)
      throw new Error(
        `a full queue answers ${status} ${body.code}, Retry-After ${retryAfter}; right is 429 rate_limited with one`,
      );
    const { rows } = await system.db.query<{ n: number }>(
      `SELECT (last_seq + (SELECT count(*) FROM runs r WHERE r.session_id = s.id)
         + (SELECT count(*) FROM messages m WHERE m.session_id = s.id))::int AS n FROM sessions s WHERE id = $1`,
      [sessionId],
    );
    if (rows[0]?.n !== 0) throw new Error(`the refused run left ${rows[0]?.n} rows in its session`);
  }
  if (system.urls.length === 1 && accepted.length > 0)
    throw new Error(`the only gateway took ${accepted.length} runs beyond those that may be queued`);
  return accepted;
}

/** What a tenant is shown of the first session of another one, or of its own: of another's nothing, of its own all. */
async function readLog({ url }: System, reader: Tenant, owner: Tenant): Promise<Recording> {
  const [sessionId = ''] = owner.sessions;
  const { status, body } = await apiOf(url, reader.key)<{ readonly items?: Recording['frames'] }>(
    'GET',
    `/v1/sessions/${sessionId}/event-log?limit=1000`,
  );
  const own = reader === owner;
  if (status !== 200 && (own || status !== 404)) throw new Error(`the log of a session is answered with ${status}`);
  return { sessionId, tenantId: reader.id, frames: body.items ?? [], whole: own };
}

interface Refusal {
  readonly code?: string;
  readonly runId?: string;
}

/** What the checker judges, but whose runs were accepted: the clients know. The tables themselves keep rows of tenants apart. */
async function historyOf(
  system: System,
  tenants: readonly Tenant[],
  secrets: Readonly<Record<string, string>>,
): Promise<Omit<History, 'accepted'>> {
  return {
    ...(await readHistory(system.db)),
    effects: [],
    recordings: await Promise.all(
      tenants.flatMap((reader, index) => [
        readLog(system, reader, reader),
        readLog(system, reader, tenants[(index + 1) % tenants.length] as Tenant),
      ]),
    ),
    requests: [],
    chain: [],
    retried: new Map(),
    logs: new Map([...system.gateways, ...system.runners].map((each) => [each.name, each.output()])),
    secrets: new Map([
      ...Object.entries(secrets),
      ['the API key', system.key],
      ...tenants.map(({ name, key }) => [`the API key of ${name}`, key] as const),
    ]),
    leftovers: [],
  };
}

/** Every accepted run has one end, nothing else was created, and every session's ledger is whole. */
async function judge(system: System, runIds: readonly string[]) {
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
