import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SCOPES, type Scope } from '@codedock/domain';
import { prepareQueueSchema } from '@codedock/queue';
import { openStore, type Store } from '@codedock/store';
import {
  createTestDatabase,
  type EventStream,
  eventually,
  freePort,
  openEventStream,
  repositoryRoot,
  requireRedis,
  startProcess,
  type TestDatabase,
  type TestProcess,
  temporaryFolder,
} from '@codedock/testkit';
import pg from 'pg';
import { type Api, apiOf } from './api.js';
import type { Profile } from './profiles.js';

/** What to start. */
export interface SystemOptions {
  readonly profile?: Profile;
  /** Puts plugins into a root; absent = no plugin-host at all. */
  readonly plugins?: (root: string) => Promise<void> | void;
  /** Default 1. */
  readonly runners?: number;
  /** Default 1. */
  readonly gateways?: number;
  /** Default 1; only with `plugins`. */
  readonly pluginHosts?: number;
  /** Agent profiles beside the built-in `default`. */
  readonly agents?: readonly Record<string, unknown>[];
  /** Added to every service. */
  readonly env?: Readonly<Record<string, string>>;
  readonly gatewayEnv?: Readonly<Record<string, string>>;
  readonly runnerEnv?: Readonly<Record<string, string>>;
  readonly pluginHostEnv?: Readonly<Record<string, string>>;
  /** Start gateways and runners although the plugin-host is not there yet; start it with `startPluginHost()`. */
  readonly pluginHostLater?: boolean;
  /** The chain is not expected to become ready: a required plugin is broken on purpose. */
  readonly unready?: boolean;
  /** A Redis of the test's own instead of the run's; only with the profile `redis`. */
  readonly redisUrl?: string;
  /** A migrated database of the test's own instead of a new one of the run's; dropped when the system stops. */
  readonly database?: TestDatabase;
  /** Programs that are started instead of the services' own, by absolute path. */
  readonly programs?: Readonly<{ gateway?: string; runner?: string; 'plugin-host'?: string }>;
}

/** A run as the API shows it. */
export interface RunView {
  readonly id: string;
  readonly sessionId: string;
  readonly status: string;
  readonly stopReason?: string;
  readonly message?: string;
  readonly attempt: number;
  readonly lastSeq: number;
}

/** A stored event as the API shows it. */
export interface EventView {
  readonly seq: number;
  readonly type: string;
  readonly runId?: string;
  readonly turnId?: string;
  readonly attempt?: number;
  readonly payload: Record<string, unknown>;
}

/** A whole CodeDock of real processes on a database of its own. */
export interface System {
  readonly url: string;
  /** Of every gateway, in the order they were started. */
  readonly urls: readonly string[];
  /** Key with all scopes of the tenant `default`. */
  readonly key: string;
  readonly api: Api;
  readonly store: Store;
  readonly db: pg.Pool;
  readonly databaseUrl: string;
  /** Redis, or the database again. */
  readonly queueUrl: string;
  readonly gateways: TestProcess[];
  readonly runners: TestProcess[];
  readonly pluginHosts: TestProcess[];
  /** `host:port` of every process's /metrics, in the order they were started. */
  readonly metricsAt: readonly string[];
  /** The same by process. */
  readonly probesAt: ReadonlyMap<TestProcess, string>;
  /** Root the plugins are in. */
  readonly pluginRoot: string;
  createKey(options?: { tenant?: string; scopes?: readonly Scope[]; expiresAt?: string }): Promise<string>;
  createSession(body?: Record<string, unknown>): Promise<string>;
  /** Starts a run and expects 201. */
  startRun(sessionId: string, body: Record<string, unknown>): Promise<RunView>;
  /** `startRun` in a new session, awaited to its end. */
  runToEnd(content: string, body?: Record<string, unknown>): Promise<RunView>;
  waitForRun(runId: string, until: (run: RunView) => boolean, timeoutMs?: number): Promise<RunView>;
  waitForEnd(runId: string, timeoutMs?: number): Promise<RunView>;
  /** The session's whole event log. */
  events(sessionId: string): Promise<EventView[]>;
  stream(pathAndQuery: string, options?: { key?: string; lastEventId?: string; url?: string }): Promise<EventStream>;
  startGateway(env?: Readonly<Record<string, string>>): Promise<TestProcess>;
  /** `program`: started instead of the service's own. */
  startRunner(env?: Readonly<Record<string, string>>, program?: string): Promise<TestProcess>;
  /** At the next of the addresses that gateways and runners know, whose host has to be gone by then. */
  startPluginHost(env?: Readonly<Record<string, string>>): Promise<TestProcess>;
  stop(): Promise<void>;
}

/** Time-outs that a busy machine does not reach; those of every service where a test does not say others. */
export const PATIENT = { PLUGIN_GATE_TIMEOUT: '15s', PLUGIN_RPC_TIMEOUT: '10s' } as const;

/** How long `startSystem` may take on a busy machine, milliseconds: the limit of the hook that calls it. */
export const START_MS = 120_000;

const ENDED = new Set(['completed', 'failed', 'cancelled', 'timed_out', 'blocked']);

/** Text of a message that scripts the fake provider: one step per model call. */
export function fakeScript(...steps: readonly Record<string, unknown>[]): string {
  return `fake:${JSON.stringify(steps)}`;
}

/** Waits until every plugin of the system answers; one that only some are asked for does not make the chain unready. */
export async function waitForPlugins({ api }: Pick<System, 'api'>): Promise<void> {
  await eventually(
    async () => {
      const { body } = await api<{ items: { name: string; state: string }[] }>('GET', '/v1/plugins');
      const waiting = body.items.filter(({ state }) => state !== 'ready').map(({ name, state }) => `${name}: ${state}`);
      if (waiting.length > 0) throw new Error(waiting.join(', '));
    },
    { timeoutMs: 60_000, what: 'every plugin to be ready' },
  );
}

/** Starts a system and waits until every part is ready. Stop it in `afterAll`. */
export async function startSystem(options: SystemOptions = {}): Promise<System> {
  const database = options.database ?? (await createTestDatabase());
  const folder = await temporaryFolder('codedock-system-');
  const profile = options.profile ?? 'embedded';
  const queueUrl = profile === 'redis' ? (options.redisUrl ?? (await requireRedis()).url) : database.url;
  if (profile === 'embedded') await prepareQueueSchema(queueUrl);
  const store = await openStore({ url: database.url, maxConnections: 2 });
  const db = new pg.Pool({ connectionString: database.url, max: 2 });
  // An idle connection may be ended by the database's end before the pool has heard of its own.
  db.on('error', () => undefined);

  const pluginRoot = path.join(folder.path, 'plugins');
  const hostPorts = await ports(options.plugins ? (options.pluginHosts ?? 1) : 0);
  const gatewayPorts = await ports(options.gateways ?? 1);
  const hostApiPorts = await ports(options.gateways ?? 1);
  const agentsFile = path.join(folder.path, 'agents.json');
  if (options.agents) await writeFile(agentsFile, JSON.stringify({ agents: options.agents }));
  if (options.plugins) {
    await mkdir(pluginRoot, { mode: 0o755 });
    await options.plugins(pluginRoot);
  }

  const internal = {
    CODEDOCK_INTERNAL_TOKEN: randomBytes(24).toString('hex'),
    CODEDOCK_CAPABILITY_KEY: randomBytes(32).toString('hex'),
  };
  const shared = {
    ...internal,
    CODEDOCK_LOG_LEVEL: 'info',
    ...PATIENT,
    ...options.env,
  };
  const withHooks =
    hostPorts.length > 0 ? { PLUGIN_HOST_URL: hostPorts.map((port) => `127.0.0.1:${port}`).join(',') } : {};
  const withStore = { DATABASE_URL: database.url, QUEUE_URL: queueUrl, ...withHooks };

  const programs: Readonly<Record<string, string | undefined>> = options.programs ?? {};
  const service = (
    app: string,
    env: Readonly<Record<string, string>>,
    ready: RegExp | string,
    name: string,
    program = programs[app] ?? path.join(repositoryRoot(), 'apps', app, 'dist', 'main.js'),
  ) =>
    startProcess({
      command: process.execPath,
      args: ['--enable-source-maps', program],
      env,
      ready,
      readyTimeoutMs: 90_000,
      name,
    });

  const urls: string[] = [];
  const metricsAt: string[] = [];
  const probesAt = new Map<TestProcess, string>();
  let startedGateways = 0;
  const hostApiTaken = new Set<number>();
  const gateways: TestProcess[] = [];
  const runners: TestProcess[] = [];
  const pluginHosts: TestProcess[] = [];

  const startGateway = async (env: Readonly<Record<string, string>> = {}) => {
    const index = startedGateways;
    startedGateways += 1;
    const port = gatewayPorts[index] ?? (await freePort());
    // Who takes the place of a gateway that is gone takes its address too: plugin-hosts know no other.
    const hostApiPort = hostApiPorts.find((each) => !hostApiTaken.has(each)) ?? (await freePort());
    hostApiTaken.add(hostApiPort);
    const gateway = await service(
      'gateway',
      {
        ...shared,
        ...withStore,
        CODEDOCK_HTTP_LISTEN: `127.0.0.1:${port}`,
        CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApiPort}`,
        ...(options.agents ? { CODEDOCK_PROFILES_FILE: agentsFile } : {}),
        ...options.gatewayEnv,
        ...env,
      },
      `http://127.0.0.1:${port}/readyz`,
      `gateway-${index}`,
    ).catch((error: unknown) => {
      hostApiTaken.delete(hostApiPort);
      throw error;
    });
    void gateway.exited.then(() => hostApiTaken.delete(hostApiPort));
    gateways.push(gateway);
    metricsAt.push(`127.0.0.1:${port}`);
    probesAt.set(gateway, `127.0.0.1:${port}`);
    urls[index] = `http://127.0.0.1:${port}`;
    return gateway;
  };
  let startedRunners = 0;
  const startRunner = async (env: Readonly<Record<string, string>> = {}, program?: string) => {
    const index = startedRunners;
    startedRunners += 1;
    const port = await freePort();
    const runner = await service(
      'runner',
      { ...shared, ...withStore, CODEDOCK_RUNNER_HEALTH_LISTEN: `127.0.0.1:${port}`, ...options.runnerEnv, ...env },
      options.pluginHostLater || options.unready
        ? `http://127.0.0.1:${port}/healthz`
        : `http://127.0.0.1:${port}/readyz`,
      `runner-${index}`,
      program,
    );
    runners.push(runner);
    metricsAt.push(`127.0.0.1:${port}`);
    probesAt.set(runner, `127.0.0.1:${port}`);
    return runner;
  };
  let startedPluginHosts = 0;
  const startPluginHost = async (env: Readonly<Record<string, string>> = {}) => {
    const index = startedPluginHosts;
    startedPluginHosts += 1;
    const healthPort = await freePort();
    const host = await service(
      'plugin-host',
      {
        ...shared,
        CODEDOCK_PLUGIN_DIR: pluginRoot,
        PLUGIN_HOST_LISTEN: `127.0.0.1:${hostPorts[index % hostPorts.length]}`,
        CODEDOCK_HOST_API_URL: `127.0.0.1:${hostApiPorts[0]}`,
        CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
        ...options.pluginHostEnv,
        ...env,
      },
      `http://127.0.0.1:${healthPort}/${options.unready ? 'healthz' : 'readyz'}`,
      `plugin-host-${index}`,
    );
    pluginHosts[index] = host;
    metricsAt.push(`127.0.0.1:${healthPort}`);
    probesAt.set(host, `127.0.0.1:${healthPort}`);
    return host;
  };

  const stop = async () => {
    // A process that does not stop in time fails the suite, but must not leave the rest behind.
    const stopped: PromiseSettledResult<unknown>[] = [];
    for (const processes of [runners, pluginHosts, gateways]) {
      const running = processes.filter((each) => !each.hasExited());
      stopped.push(...(await Promise.allSettled(running.map((each) => each.stop()))));
    }
    await db.end();
    await store.close();
    await database.drop();
    await folder.remove();
    for (const result of stopped) if (result.status === 'rejected') throw result.reason;
  };

  const createKey: System['createKey'] = async ({ tenant = 'default', scopes = SCOPES, expiresAt } = {}) => {
    const key = `cdk_${randomBytes(32).toString('base64url')}`;
    const { id } = await store.tenants.ensure({ id: randomUUID(), name: tenant });
    await store.keys.create({
      id: randomUUID(),
      tenantId: id,
      name: `key-${randomUUID()}`,
      hash: createHash('sha256').update(key).digest('hex'),
      scopes,
      ...(expiresAt === undefined ? {} : { expiresAt }),
    });
    return key;
  };

  try {
    const key = await createKey();
    await Promise.all(Array.from({ length: options.gateways ?? 1 }, () => startGateway()));
    const starting = Array.from({ length: options.runners ?? 1 }, () => startRunner());
    if (hostPorts.length > 0 && !options.pluginHostLater) await Promise.all(hostPorts.map(() => startPluginHost()));
    await Promise.all(starting);

    const url = urls[0] as string;
    const api = apiOf(url, key);
    if (hostPorts.length > 0 && !options.pluginHostLater && !options.unready) {
      // The gateway serves without plugins on purpose; a suite wants to begin with them in the chain.
      await eventually(async () => (await api<{ ready?: boolean }>('GET', '/v1/plugins/explain')).body.ready === true, {
        timeoutMs: 20_000,
        what: 'the gateway to see the plugin chain',
      });
    }
    const createSession: System['createSession'] = async (body = {}) => {
      const answer = await api<{ id: string }>('POST', '/v1/sessions', body);
      if (answer.status !== 201) throw new Error(`no session: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body.id;
    };
    const startRun: System['startRun'] = async (sessionId, body) => {
      const answer = await api<{ run: RunView }>('POST', `/v1/sessions/${sessionId}/runs`, body);
      if (answer.status !== 201) throw new Error(`no run: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body.run;
    };
    const waitForRun: System['waitForRun'] = (runId, until, timeoutMs = 60_000) =>
      eventually(
        async () => {
          const { body } = await api<RunView>('GET', `/v1/runs/${runId}`);
          if (!until(body)) throw new Error(`it is ${JSON.stringify(body)}`);
          return body;
        },
        { timeoutMs, what: `run ${runId}` },
      );
    const waitForEnd: System['waitForEnd'] = (runId, timeoutMs) =>
      waitForRun(runId, (run) => ENDED.has(run.status), timeoutMs);
    return {
      url,
      urls,
      key,
      api,
      store,
      db,
      databaseUrl: database.url,
      queueUrl,
      gateways,
      runners,
      pluginHosts,
      metricsAt,
      probesAt,
      pluginRoot,
      createKey,
      createSession,
      startRun,
      waitForRun,
      waitForEnd,
      runToEnd: async (content, body = {}) => {
        const run = await startRun(await createSession(), { content, ...body });
        return waitForEnd(run.id);
      },
      events: async (sessionId) => {
        const answer = await api<{ items: EventView[] }>(
          'GET',
          `/v1/sessions/${sessionId}/event-log?after=0&limit=1000`,
        );
        return answer.body.items;
      },
      stream: (pathAndQuery, { key: other = key, lastEventId, url: from = url } = {}) =>
        openEventStream(`${from}${pathAndQuery}`, {
          headers: { authorization: `Bearer ${other}` },
          ...(lastEventId === undefined ? {} : { lastEventId }),
        }),
      startGateway,
      startRunner,
      startPluginHost,
      stop,
    };
  } catch (error) {
    const logs = [...gateways, ...runners, ...pluginHosts]
      .map(({ name, output }) => `── ${name}\n${output()}`)
      .join('\n');
    await stop();
    (error as Error).message += `\n${logs}`;
    throw error;
  }
}

async function ports(count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, freePort));
}
