// What runs cost: real gateway and runner processes, a scripted provider, runs of one turn (9 events), on each queue
// backend that is there. Times of drained and HTTP runs are the database's clock.
import { randomUUID } from 'node:crypto';
import { eventually, openEventStream, startRunRedis } from '@codedock/testkit';
import { JsonClient } from './json-client.js';
import { cpuMs, cpuMsBelow } from './process-cpu.js';
import { countOperations } from './queue-operations.js';
import { type RunSystem, type RunSystemOptions, startRunSystem } from './run-system.js';
import { percentile, printTable, rounded } from './statistics.js';

const asJson = process.argv.includes('--json');
const quick = process.argv.includes('--quick');
const DRAINED = quick ? 300 : 2_000;
const TOOL_DRAINED = quick ? 150 : 1_000;
const GATED = quick ? 200 : 1_000;
/** Questions cost several times as much until the plugin-host has warmed up. */
const GATED_WARM_UP = 200;
const HTTP = quick ? 300 : 2_000;
const ONE_BY_ONE = quick ? 40 : 200;
const APPENDS = quick ? 2_000 : 8_000;
const WIDTH = 64;
const APPENDERS = 16;
const EVENTS_PER_RUN = 9;

const TEXT = 'Hello, what can you do?';
const ONE_PING = `fake:${JSON.stringify([{ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'pong it is' }])}`;

/** A policy on everything a run can be asked about. */
const PLUGIN = `import { definePlugin, serve } from '@codedock/plugin-sdk';
  const goOn = () => undefined;
  serve(definePlugin({
    name: 'bench', version: '1.0.0',
    onAgentInput: goOn, onAgentRequest: goOn, onToolPreExecute: goOn, onToolPostExecute: goOn,
  }));`;

/** One profile's figures, as printed with --json. */
interface Figures {
  readonly profile: string;
  /** One-turn runs per second, queued while no runner was there. */
  readonly drained_per_s: number;
  /** The same with one call of a built-in tool. */
  readonly tool_drained_per_s: number;
  /** Runs per second from POST to end, 64 at a time. */
  readonly http_per_s: number;
  /** Drained runs ÷ (single-row appends per second ÷ 9). */
  readonly floor_ratio: number;
  /** Statements of the product per run, POST to end. */
  readonly sql_per_run: number;
  /** Statements (PostgreSQL) or commands (Redis) of the queue per run. */
  readonly queue_ops_per_run: number;
  /** CPU time per run, POST to end, of the gateway and of the runner, milliseconds; 0 where the system does not say. */
  readonly gateway_cpu_ms_per_run: number;
  readonly runner_cpu_ms_per_run: number;
  /** Runs with one call of a tool and a plugin that is asked at input, requests and before and after the tool. */
  readonly gated_drained_per_s: number;
  /** Questions to that plugin per run. */
  readonly gates_per_run: number;
  /** CPU time per question of the plugin-host, and of the plugin (TypeScript), milliseconds. */
  readonly plugin_host_cpu_ms_per_gate: number;
  readonly plugin_cpu_ms_per_gate: number;
  /** What the database has grown by per run and its session, indexes included, KiB. */
  readonly db_kib_per_run: number;
  /** POST to the first event, and to the last, over SSE, one run at a time. */
  readonly first_event_p50_ms: number;
  readonly first_event_p99_ms: number;
  readonly end_p50_ms: number;
}

async function main(): Promise<void> {
  const figures: Figures[] = [];
  const redis = await startRunRedis();
  try {
    figures.push(await measureOn('embedded', undefined));
    if ('skipped' in redis) console.log(`redis: skipped, ${redis.skipped}`);
    else figures.push(await measureOn('redis', redis.url));
  } finally {
    if ('stop' in redis) await redis.stop();
  }
  print(figures);
  if (asJson) console.log(JSON.stringify(figures));
}

async function measureOn(profile: string, redisUrl: string | undefined): Promise<Figures> {
  const gated = await withSystem({ redisUrl, plugin: PLUGIN }, measureGated);
  return withSystem({ redisUrl }, (system) => measure(profile, system, redisUrl, gated));
}

async function withSystem<T>(options: RunSystemOptions, work: (system: RunSystem) => Promise<T>): Promise<T> {
  const system = await startRunSystem(options);
  try {
    return await work(system);
  } finally {
    await system.stop();
  }
}

type Gated = Pick<
  Figures,
  'gated_drained_per_s' | 'gates_per_run' | 'plugin_host_cpu_ms_per_gate' | 'plugin_cpu_ms_per_gate'
>;

async function measureGated(system: RunSystem): Promise<Gated> {
  const client = new JsonClient(system.url, system.key);
  try {
    const pid = system.pluginHost?.pid ?? 0;
    const warmUp = await createSessions(client, GATED_WARM_UP);
    await drain(system, client, warmUp, ONE_PING);
    const sessions = await createSessions(client, GATED);
    const [host, plugin, asked] = [cpuMs(pid), cpuMsBelow(pid), await questions(system)];
    const { perSecond } = await drain(system, client, sessions, ONE_PING);
    const questionsAsked = (await questions(system)) - asked;
    return {
      gated_drained_per_s: rounded(perSecond),
      gates_per_run: rounded(questionsAsked / GATED),
      plugin_host_cpu_ms_per_gate: rounded((cpuMs(pid) - host) / questionsAsked),
      plugin_cpu_ms_per_gate: rounded((cpuMsBelow(pid) - plugin) / questionsAsked),
    };
  } finally {
    client.close();
  }
}

/** Questions to plugins until now. */
async function questions({ metricsUrls }: RunSystem): Promise<number> {
  const [, pluginHost = ''] = metricsUrls;
  const text = await (await fetch(pluginHost)).text();
  const counts = text.matchAll(/^codedock_plugin_duration_count\{[^}]*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function measure(
  profile: string,
  system: RunSystem,
  redisUrl: string | undefined,
  gated: Gated,
): Promise<Figures> {
  const client = new JsonClient(system.url, system.key);
  try {
    const floor = await appendsPerSecond(system, client);

    const sizeBefore = await databaseSize(system);
    const sessions = await createSessions(client, DRAINED);
    const operations = await countOperations(system.statements, redisUrl);
    const drained = await drain(system, client, sessions, TEXT);
    const counted = await operations();
    const grown = (await databaseSize(system)) - sizeBefore;
    const toolDrained = await drain(system, client, await createSessions(client, TOOL_DRAINED), ONE_PING);

    const runner = await system.startRunner();
    await overHttp(system, client, Math.ceil(HTTP / 10));
    const http = await overHttp(system, client, HTTP);
    const latencies = await oneByOne(system, client);
    await runner.stop();

    return {
      profile,
      drained_per_s: rounded(drained.perSecond),
      tool_drained_per_s: rounded(toolDrained.perSecond),
      http_per_s: rounded(http),
      floor_ratio: rounded(drained.perSecond / (floor / EVENTS_PER_RUN)),
      sql_per_run: rounded(counted.own / DRAINED),
      queue_ops_per_run: rounded(counted.queue / DRAINED),
      gateway_cpu_ms_per_run: rounded(drained.gatewayCpuMs / DRAINED),
      runner_cpu_ms_per_run: rounded(drained.runnerCpuMs / DRAINED),
      ...gated,
      db_kib_per_run: rounded(grown / DRAINED / 1_024),
      first_event_p50_ms: rounded(percentile(latencies.first, 0.5)),
      first_event_p99_ms: rounded(percentile(latencies.first, 0.99)),
      end_p50_ms: rounded(percentile(latencies.end, 0.5)),
    };
  } finally {
    client.close();
  }
}

/** Single-row appends per second through the store's own function, each to one of 16 sessions, 16 at a time. */
async function appendsPerSecond({ store }: RunSystem, client: JsonClient): Promise<number> {
  const [tenantId, sessions] = [
    (await store.tenants.ensure({ id: randomUUID(), name: 'default' })).id,
    await createSessions(client, APPENDERS),
  ];
  const append = (sessionId: string) =>
    store.ledger.append({
      tenantId,
      sessionId,
      events: [
        {
          eventId: randomUUID(),
          type: 'extension.event',
          payload: { extension: 'bench', name: 'append', payload: TEXT },
        },
      ],
    });
  const spread = async (appends: number) => {
    await Promise.all(
      sessions.map(async (sessionId) => {
        for (let i = 0; i < appends / APPENDERS; i += 1) await append(sessionId);
      }),
    );
  };
  await spread(APPENDS / 8);
  const begin = performance.now();
  await spread(APPENDS);
  return (APPENDS / (performance.now() - begin)) * 1_000;
}

interface Drained {
  readonly perSecond: number;
  readonly gatewayCpuMs: number;
  readonly runnerCpuMs: number;
}

/** Runs per second from the first lease to the last end, all queued before a runner was started; CPU of all of them. */
async function drain(
  system: RunSystem,
  client: JsonClient,
  sessions: readonly string[],
  content: string,
): Promise<Drained> {
  const gatewayBefore = cpuMs(system.gateway.pid);
  const ids = await spread(sessions, (sessionId) => startRun(client, sessionId, content));
  const runner = await system.startRunner();
  const runnerBefore = cpuMs(runner.pid);
  const { seconds } = await ended(system, ids);
  const runnerCpuMs = cpuMs(runner.pid) - runnerBefore;
  await runner.stop();
  return {
    perSecond: ids.length / seconds.fromFirstLease,
    gatewayCpuMs: cpuMs(system.gateway.pid) - gatewayBefore,
    runnerCpuMs,
  };
}

async function databaseSize({ db }: RunSystem): Promise<number> {
  const { rows } = await db.query<{ size: string }>('SELECT pg_database_size(current_database()) AS size');
  return Number(rows[0]?.size);
}

/** Runs per second from the first POST to the last end, 64 open at a time, each in a session of its own. */
async function overHttp(system: RunSystem, client: JsonClient, runs: number): Promise<number> {
  const sessions = await createSessions(client, runs);
  const waiting = new Map<string, () => void>();
  const over = new AbortController();
  const watching = watchEnds(system, waiting, over.signal);
  const ids = await spread(sessions, async (sessionId) => {
    const id = await startRun(client, sessionId, TEXT);
    await new Promise<void>((resolve) => waiting.set(id, resolve));
    return id;
  });
  over.abort();
  await watching;
  const { seconds } = await ended(system, ids);
  return runs / seconds.fromFirstPost;
}

/** Calls back for runs as they end, with one statement every 20 ms for all of them. */
async function watchEnds({ db }: RunSystem, waiting: Map<string, () => void>, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    if (waiting.size > 0) {
      const { rows } = await db.query<{ id: string }>(
        'SELECT id FROM runs WHERE id = ANY($1::uuid[]) AND ended_at IS NOT NULL',
        [[...waiting.keys()]],
      );
      for (const { id } of rows) {
        waiting.get(id)?.();
        waiting.delete(id);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Milliseconds from the POST to the first and to the last event of the run on its session's stream. */
async function oneByOne(system: RunSystem, client: JsonClient): Promise<{ first: number[]; end: number[] }> {
  const first: number[] = [];
  const end: number[] = [];
  for (const sessionId of await createSessions(client, ONE_BY_ONE)) {
    const stream = await openEventStream(`${system.url}/v1/sessions/${sessionId}/events`, {
      headers: { authorization: `Bearer ${system.key}` },
    });
    const begin = performance.now();
    const posted = startRun(client, sessionId, TEXT);
    const last = await stream.waitFor(({ event }) => event === 'run.completed');
    first.push((stream.frames[0] ?? last).at - begin);
    end.push(last.at - begin);
    await posted;
    stream.close();
  }
  return { first, end };
}

async function createSessions(client: JsonClient, count: number): Promise<string[]> {
  return spread(Array.from({ length: count }), async () => (await client.post<{ id: string }>('/v1/sessions', {})).id);
}

async function startRun(client: JsonClient, sessionId: string, content: string): Promise<string> {
  const { runId } = await client.post<{ runId: string }>(`/v1/sessions/${sessionId}/runs`, { content });
  return runId;
}

/** Results of `work` on every input, 64 at a time. */
async function spread<I, O>(inputs: readonly I[], work: (input: I) => Promise<O>): Promise<O[]> {
  const results: O[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: WIDTH }, async () => {
      for (let at = next++; at < inputs.length; at = next++) results[at] = await work(inputs[at] as I);
    }),
  );
  return results;
}

/** Waits until all runs have completed; seconds by the database's clock. @throws when one did not complete. */
async function ended(
  { db }: RunSystem,
  ids: readonly string[],
): Promise<{ seconds: { fromFirstLease: number; fromFirstPost: number } }> {
  return eventually(
    async () => {
      const { rows } = await db.query<{ open: number; other: number; leased: number; posted: number }>(
        `SELECT count(*) FILTER (WHERE ended_at IS NULL)::int AS open,
           count(*) FILTER (WHERE ended_at IS NOT NULL AND status <> 'completed')::int AS other,
           extract(epoch FROM max(ended_at) - min(started_at))::float8 AS leased,
           extract(epoch FROM max(ended_at) - min(created_at))::float8 AS posted
         FROM runs WHERE id = ANY($1::uuid[])`,
        [ids],
      );
      const [row] = rows;
      if (row === undefined || row.open > 0) throw new Error(`${row?.open} of ${ids.length} runs are open`);
      if (row.other > 0) throw new Error(`${row.other} of ${ids.length} runs did not complete`);
      return { seconds: { fromFirstLease: row.leased, fromFirstPost: row.posted } };
    },
    { timeoutMs: 300_000, intervalMs: 200, what: 'the runs to end' },
  );
}

function print(figures: readonly Figures[]): void {
  const heads = [
    '',
    'drained/s',
    'with tool/s',
    'HTTP/s',
    '× floor',
    'SQL/run',
    'queue ops/run',
    'gateway CPU ms/run',
    'runner CPU ms/run',
    'gated/s',
    'gates/run',
    'plugin-host CPU ms/gate',
    'plugin CPU ms/gate',
    'DB KiB/run',
  ];
  printTable(
    [...heads, 'first event p50 ms', 'p99 ms', 'end p50 ms'],
    figures.map((one) => Object.values(one)),
  );
  console.log('floor: single-row appends/s ÷ 9. SQL: POST to end, without the queue. First event and end: one by one.');
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
