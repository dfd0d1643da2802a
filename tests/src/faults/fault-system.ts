import { randomBytes, randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { TERMINAL_EVENTS } from '@codedock/domain';
import {
  createTestDatabase,
  eventually,
  type OwnPostgres,
  type RecordingProvider,
  recordingProvider,
  startPostgres,
  startRedis,
  type TestProcess,
  type TestRedis,
  temporaryFolder,
} from '@codedock/testkit';
import { type Api, apiOf } from '../api.js';
import type { Profile } from '../profiles.js';
import { fakeScript, type RunView, type System, type SystemOptions, startSystem } from '../system.js';
import type { ChainedPlugin, History, KeyedRequest } from './checker/history.js';
import { readHistory } from './checker/read-history.js';
import { ACTING, writeActingPlugin } from './effects/acting-plugin.js';
import { type EffectSink, startEffectSink } from './effects/effect-sink.js';
import { beyond, processesOf } from './processes.js';
import { deathsIn } from './programs/crash-points.js';
import { recordSession, type SessionRecorder } from './session-recorder.js';
import { type LinkFilter, startTcpProxy, throughProxy } from './tcp-proxy.js';

/** Lease and heartbeat of the suite, milliseconds: short, so that a dead runner is replaced within seconds. */
export const LEASE_MS = 3_000;
const HEARTBEAT_MS = 750;
/** How long a runner that is to end lets its turns finish, milliseconds. */
export const DRAIN_MS = 4_000;
/** Agent whose model is the recording provider. */
export const RECORDED = 'recorded';
const RECORDED_AGENT = { name: RECORDED, model: { provider: 'openai', name: 'recorded' } };
const PROVIDER_KEY = `sk-${randomBytes(16).toString('hex')}`;

/** How a system of the suite differs from the usual one: two gateways, three runners, a plugin-host, the acting plugin. */
export interface FaultSystemOptions extends Omit<SystemOptions, 'profile' | 'programs' | 'plugins'> {
  /** True: a PostgreSQL server of its own, which may be ended. Default: a database of the run's server. */
  readonly ownPostgres?: boolean;
  /** Looks at what gateways and runners say to PostgreSQL and hear from it, queue and leader's lock excepted. */
  readonly databaseFilter?: () => LinkFilter;
  /** On the profile `redis`: used and ended with the system. Default: one that it starts. */
  readonly redis?: TestRedis;
  /** Further plugins, written into the root beside the acting one. */
  readonly plugins?: (root: string) => Promise<void> | void;
  /** What may be asked of them, for the checker. */
  readonly chain?: readonly ChainedPlugin[];
  /** False: who dies stays dead. Default true: dead runners and gateways are replaced, as an orchestrator does. */
  readonly replaced?: boolean;
  /** Further runners, each with what is added to its environment. */
  readonly moreRunners?: readonly Readonly<Record<string, string>>[];
  /** What no log may contain, beside the suite's own secrets, by what it is. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Looks, when every process of the system has ended, for what is left where a case has let them work. */
  readonly leftBehind?: () => readonly string[];
  /** Called after that: for what a case has put between them. */
  readonly ended?: () => Promise<void>;
}

/** Input of a run: the script of the model, and what else the request says. */
export interface RunInput {
  /** One step per model call; see `FakeStep`. */
  readonly script: readonly Record<string, unknown>[];
  /** Default: a new session. */
  readonly sessionId?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly onBusy?: 'reject' | 'enqueue' | 'interrupt';
  readonly agent?: string;
  /** Sent as `Idempotency-Key`; the answer is remembered for the checker. */
  readonly idempotencyKey?: string;
}

/** What came of one request that a client sent or sent again. */
export interface SeenAnswer {
  /** HTTP status; undefined when the connection broke. */
  readonly status: number | undefined;
  readonly ms: number;
}

/** A system under faults: real processes, an effect sink, a client on every session, and all it takes to judge it. */
export interface FaultSystem
  extends Omit<System, 'api' | 'probesAt' | 'startRun' | 'createSession' | 'runToEnd' | 'events'> {
  readonly sink: EffectSink;
  /** Its own Redis, with an append-only file; on the profile `redis`, where no `redisUrl` was given. */
  readonly redis: TestRedis | undefined;
  /** Its own PostgreSQL server, where it was asked for. */
  readonly postgres: OwnPostgres | undefined;
  /** The model provider of the agent `recorded`. */
  readonly provider: RecordingProvider;
  /** Speaks with a gateway that is alive now; the next in turn for each request. */
  readonly api: Api;
  /** Of every request that made a session or a run, in the order in which they were answered. */
  readonly answers: readonly SeenAnswer[];
  /** A new session, followed by a client; tried again under its idempotency key while the service cannot. */
  createSession(body?: Record<string, unknown>): Promise<string>;
  /** Starts a run and expects 201; tried again under its idempotency key when the gateway dies or refuses for now. */
  start(input: RunInput): Promise<RunView>;
  /** The client that follows a session. */
  recorderOf(sessionId: string): SessionRecorder;
  /** The living runner that executes a call; undefined when none does. */
  runnerOf(callId: string): TestProcess | undefined;
  /** `host:port` where a gateway or runner tells of its health. */
  probesAt(process: TestProcess): string | undefined;
  /** Addresses of the gateways that are alive. */
  livingUrls(): readonly string[];
  /** Runners that are alive. */
  aliveRunners(): readonly TestProcess[];
  /** Resolves when as many runners and gateways as at first are ready. */
  whole(timeoutMs?: number): Promise<void>;
  /** Resolves when every accepted run has ended and every client has seen the end of its session, and has gone. */
  settled(timeoutMs?: number): Promise<void>;
  /** When the run was the death of a process: milliseconds of the machine's clock. */
  deaths(runId: string): readonly number[];
  /** Requests that a case sent itself, under one idempotency key: the runs that the answers named are accepted ones. */
  noteKeyed(request: Omit<KeyedRequest, 'tenantId'>): void;
  /** A person wants this call tried again: it may act once more. */
  noteRetry(callId: string): void;
  history(): Promise<History>;
  /** Ends everything. Answers what is left behind. */
  end(): Promise<readonly string[]>;
}

const ENDED: ReadonlySet<string> = new Set(Object.keys(TERMINAL_EVENTS));
const ACTING_CHAIN: ChainedPlugin = { name: ACTING, gates: ['beforeInput', 'beforeToolCall'] };

/** Starts a system of the suite's own programs with its lease times. */
export async function startFaultSystem(profile: Profile, options: FaultSystemOptions = {}): Promise<FaultSystem> {
  const temporary = await temporaryFolder('codedock-faults-');
  const deaths = await temporaryFolder('codedock-deaths-');
  const sink = await startEffectSink();
  const provider = await recordingProvider();
  const {
    plugins,
    chain = [],
    replaced = true,
    ownPostgres = false,
    databaseFilter,
    redis: ownRedis,
    moreRunners = [],
    secrets: ownSecrets = {},
    leftBehind = () => [],
    ended,
    ...rest
  } = options;
  const redis =
    profile === 'redis' && rest.redisUrl === undefined
      ? (ownRedis ?? (await startRedis({ appendOnly: true })))
      : undefined;
  const postgres = ownPostgres ? await startPostgres() : undefined;
  const database = rest.database ?? postgres?.database ?? (await createTestDatabase());
  const proxy =
    databaseFilter === undefined
      ? undefined
      : await startTcpProxy({ to: Number(new URL(database.url).port), filter: databaseFilter });
  const addresses =
    proxy === undefined ? {} : { DATABASE_URL: throughProxy(database.url, proxy), DATABASE_DIRECT_URL: database.url };
  const closeSurroundings = async () => {
    await ended?.();
    await proxy?.close();
    await postgres?.stop();
    await redis?.stop();
    await sink.stop();
    await provider.close();
    await deaths.remove();
    await temporary.remove();
  };
  const secrets = new Map([
    ['CODEDOCK_INTERNAL_TOKEN', randomBytes(24).toString('hex')],
    ['CODEDOCK_CAPABILITY_KEY', randomBytes(32).toString('hex')],
    ['OPENAI_API_KEY', PROVIDER_KEY],
    ...Object.entries(ownSecrets),
  ]);
  const system = await startSystem({
    gateways: 2,
    runners: 3,
    ...rest,
    profile,
    ...(redis === undefined ? {} : { redisUrl: redis.url }),
    database,
    programs: { gateway: programOf('gateway'), runner: programOf('runner') },
    env: {
      CODEDOCK_LEASE_TTL: `${LEASE_MS}ms`,
      CODEDOCK_LEASE_HEARTBEAT: `${HEARTBEAT_MS}ms`,
      ...Object.fromEntries([...secrets].filter(([name]) => name.startsWith('CODEDOCK_'))),
      RUNNER_DRAIN_TIMEOUT: `${DRAIN_MS}ms`,
      FAULTS_DEATHS: deaths.path,
      ...rest.env,
      TMPDIR: temporary.path,
    },
    gatewayEnv: { CODEDOCK_EVENT_STREAM_STALL_TIMEOUT: '5s', ...addresses, ...rest.gatewayEnv },
    // The gateway's default agent stays the scripted one.
    runnerEnv: {
      ...addresses,
      OPENAI_API_KEY: PROVIDER_KEY,
      OPENAI_BASE_URL: provider.baseUrl,
      CODEDOCK_PROVIDER_ALLOW_PRIVATE: 'true',
      ...rest.runnerEnv,
    },
    agents: [RECORDED_AGENT, ...(rest.agents ?? [])],
    plugins: async (root) => {
      await writeActingPlugin(root, sink.url);
      await plugins?.(root);
    },
  }).catch(async (error: unknown) => {
    await closeSurroundings();
    throw error;
  });
  await Promise.all(moreRunners.map((env) => system.startRunner(env))).catch(async (error: unknown) => {
    await system.stop();
    await closeSurroundings();
    throw error;
  });
  secrets.set('the API key', system.key);
  const { rows } = await system.db.query<{ id: string }>("SELECT id FROM tenants WHERE name = 'default'");
  const tenantId = rows[0]?.id ?? '';

  const wanted = { gateways: system.gateways.length, runners: system.runners.length };
  const recorders = new Map<string, SessionRecorder>();
  const accepted: string[] = [];
  const requests: KeyedRequest[] = [];
  const retried = new Map<string, number>();
  let ending = false;
  let turn = 0;

  const alive = (processes: readonly TestProcess[]) => processes.filter((each) => !each.hasExited());
  const urlOf = (gateway: TestProcess) => system.urls[Number(gateway.name.split('-').at(-1))];
  const livingUrls = () => alive(system.gateways).flatMap((gateway) => urlOf(gateway) ?? []);
  const url = () => {
    const urls = livingUrls();
    turn += 1;
    return urls[turn % urls.length] ?? system.url;
  };
  const api: Api = (...given) => apiOf(url(), system.key)(...given);
  const answers: SeenAnswer[] = [];
  /** Sends, and remembers what came of it. */
  const seen = async <T extends { readonly status: number }>(post: () => Promise<T>): Promise<T> => {
    const began = performance.now();
    let status: number | undefined;
    try {
      const answer = await post();
      ({ status } = answer);
      return answer;
    } finally {
      answers.push({ status, ms: performance.now() - began });
    }
  };

  const replacing = new Set<Promise<unknown>>();
  const watch = (each: TestProcess, startAnother: () => Promise<TestProcess>) => {
    void each.exited.then(() => {
      if (ending || !replaced) return;
      const started = untilStarted(startAnother).then((another) => {
        if (another !== undefined) watch(another, startAnother);
      });
      replacing.add(started);
      void started.finally(() => replacing.delete(started));
    });
  };
  for (const runner of system.runners) watch(runner, () => system.startRunner());
  for (const gateway of system.gateways) watch(gateway, () => system.startGateway());

  /** Why processes that were to replace the dead did not start. */
  const unstarted: string[] = [];
  /** An orchestrator starts again what could not connect on a busy machine. */
  const untilStarted = async (start: () => Promise<TestProcess>): Promise<TestProcess | undefined> => {
    for (let tries = 0; tries < 5 && !ending; tries += 1) {
      const started = await start().catch((error: unknown) => void unstarted.push((error as Error).message));
      if (started !== undefined) return started;
    }
    return undefined;
  };

  const createSession = async (body: Record<string, unknown> = {}): Promise<string> => {
    const headers = { 'idempotency-key': randomUUID() };
    const post = () => api<{ id: string }>('POST', '/v1/sessions', body, { headers });
    const answer = await untilAnswered(() => seen(post));
    if (answer.status !== 201) throw new Error(`no session: ${answer.status} ${JSON.stringify(answer.body)}`);
    const sessionId = answer.body.id;
    recorders.set(sessionId, recordSession({ sessionId, tenantId, key: system.key, url }));
    return sessionId;
  };

  const start: FaultSystem['start'] = async ({ script, sessionId, idempotencyKey, ...input }) => {
    const session = sessionId ?? (await createSession());
    const body = { content: fakeScript(...script), ...input };
    const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
    const post = () => seen(() => api<{ run: RunView }>('POST', `/v1/sessions/${session}/runs`, body, { headers }));
    // Only a keyed request may be repeated: nobody knows whether the broken one was accepted.
    const answer = idempotencyKey === undefined ? await post() : await untilAnswered(post);
    if (answer.status !== 201) throw new Error(`no run: ${answer.status} ${JSON.stringify(answer.body)}`);
    const { run } = answer.body;
    accepted.push(run.id);
    if (idempotencyKey !== undefined) {
      requests.push({ tenantId, key: idempotencyKey, body: JSON.stringify(body), runIds: [run.id] });
    }
    return run;
  };

  const whole: FaultSystem['whole'] = async (timeoutMs = 120_000) => {
    if (!replaced) return;
    await eventually(
      () => {
        const [gateways, runners] = [alive(system.gateways).length, alive(system.runners).length];
        if (replacing.size === 0 && gateways >= wanted.gateways && runners >= wanted.runners) return;
        throw new Error([`${gateways} gateways, ${runners} runners are alive`, ...unstarted].join('; '));
      },
      { timeoutMs, what: 'the dead to be replaced' },
    );
  };

  const settled: FaultSystem['settled'] = async (timeoutMs = 120_000) => {
    await eventually(
      async () => {
        const open = await system.db.query<{ id: string; status: string }>(
          'SELECT id, status FROM runs WHERE status <> ALL ($1)',
          [[...ENDED]],
        );
        if (open.rows.length > 0) throw new Error(`open are ${open.rows.map((row) => `${row.id} (${row.status})`)}`);
      },
      { timeoutMs, intervalMs: 100, what: 'every run to end' },
    );
    const sessions = await system.db.query<{ id: string; last_seq: string }>('SELECT id, last_seq FROM sessions');
    await Promise.all(
      sessions.rows.map(async ({ id, last_seq }) => {
        const recorder = recorders.get(id);
        await recorder?.until(Number(last_seq)).catch(() => undefined);
        // Thousands of sessions in one system: gateways keep no more than so many streams open.
        recorder?.close();
      }),
    );
  };

  const baseline = processesOf(temporary.path);
  const leftovers = () => beyond(baseline, processesOf(temporary.path)).map((name) => `the process ${name}`);

  const history = async (): Promise<History> => ({
    ...(await readHistory(system.db)),
    effects: await sink.effects(),
    recordings: [...recorders.values()].map((recorder) => recorder.recording()),
    requests,
    chain: [ACTING_CHAIN, ...chain],
    retried,
    accepted,
    logs: new Map(
      [...system.gateways, ...system.runners, ...system.pluginHosts].map((each) => [each.name, each.output()]),
    ),
    secrets,
    leftovers: leftovers(),
  });

  const waitForRun: System['waitForRun'] = (runId, until, timeoutMs = 120_000) =>
    eventually(
      async () => {
        const { body } = await api<RunView>('GET', `/v1/runs/${runId}`);
        if (!until(body)) throw new Error(`it is ${JSON.stringify(body)}`);
        return body;
      },
      { timeoutMs, intervalMs: 50, what: `run ${runId}` },
    );

  return {
    ...system,
    sink,
    redis,
    postgres,
    provider,
    api,
    answers,
    waitForRun,
    waitForEnd: (runId, timeoutMs) => waitForRun(runId, ({ status }) => ENDED.has(status), timeoutMs),
    createSession,
    start,
    recorderOf: (sessionId) => {
      const recorder = recorders.get(sessionId);
      if (recorder === undefined) throw new Error(`nobody follows session ${sessionId}`);
      return recorder;
    },
    runnerOf: (callId) => alive(system.runners).find((runner) => runner.stdout().includes(`executing ${callId} `)),
    probesAt: (process) => system.probesAt.get(process),
    livingUrls,
    aliveRunners: () => alive(system.runners),
    whole,
    settled,
    deaths: (runId) => deathsIn(path.join(deaths.path, runId)),
    noteKeyed: (request) => {
      requests.push({ tenantId, ...request });
      accepted.push(...new Set(request.runIds));
    },
    noteRetry: (callId) => void retried.set(callId, (retried.get(callId) ?? 0) + 1),
    history,
    async end() {
      ending = true;
      for (const recorder of recorders.values()) recorder.close();
      await Promise.allSettled(replacing);
      await system.stop();
      const left = [
        ...processesOf(temporary.path).map((name) => `the process ${name}`),
        ...readdirSync(temporary.path).map((name) => `the file ${name}`),
        ...leftBehind(),
      ];
      await closeSurroundings();
      return left;
    },
  };
}

function programOf(service: string): string {
  return path.join(__dirname, 'programs', `${service}-process.js`);
}

/** Sends again what was not answered or refused for now: as a client does with an idempotency key. */
function untilAnswered<T extends { readonly status: number; readonly body: unknown }>(
  post: () => Promise<T>,
): Promise<T> {
  return eventually(
    async () => {
      const answer = await post();
      // 409: another gateway, or the same request of a dead one, may be at it still.
      if (answer.status === 409 || answer.status === 429 || answer.status >= 500)
        throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
      return answer;
    },
    { timeoutMs: 60_000, intervalMs: 100, what: 'an answer other than a refusal for now' },
  ) as Promise<T>;
}
