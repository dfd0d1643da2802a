import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { openStore, type Store } from '@codedock/store';
import {
  createTestDatabase,
  eventually,
  repositoryRoot,
  requireRedis,
  startProcess,
  type TestDatabase,
  type TestProcess,
  temporaryFolder,
} from '@codedock/testkit';
import pg from 'pg';
import { type Api, apiOf } from '../api.js';
import { asked, writePolicy } from '../gates/policies.js';
import { fakeScript, PATIENT, type RunView } from '../system.js';
import { Authority } from './certificates.js';
import { createNetwork, type Host, type Network, networkMissing } from './network.js';

const SETUP_MS = 240_000;
const PATIENCE_MS = 90_000;
const ENDED = new Set(['completed', 'failed', 'cancelled', 'timed_out', 'blocked']);

/**
 * A gateway, two runners and two plugin-hosts, each on an address of its own, speaking mutual TLS; partitions between them
 * are black holes, as a broken switch or a lost node makes them.
 */
describe('services on separate addresses', () => {
  let missing: string | undefined;
  let network: Network;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let database: TestDatabase;
  let store: Store;
  let db: pg.Pool;
  let api: Api;
  const hosts: Record<string, Host> = {};
  const processes: TestProcess[] = [];
  const pluginRoot = () => path.join(folder.path, 'plugins');

  beforeAll(async () => {
    missing = await networkMissing();
    if (missing !== undefined) {
      if (process.env['REQUIRE_NETWORK'] === '1') throw new Error(missing);
      process.stderr.write(`skipped: services on separate addresses, ${missing}\n`);
      return;
    }
    folder = await temporaryFolder('codedock-network-');
    network = await createNetwork();
    database = await createTestDatabase();
    store = await openStore({ url: database.url, maxConnections: 2 });
    db = new pg.Pool({ connectionString: database.url, max: 2 });
    db.on('error', () => undefined);
    await mkdir(pluginRoot(), { mode: 0o755 });
    await writePolicy(pluginRoot(), 'policy', { ports: ['agent/input', 'tools/pre-execute'] });

    const authority = await Authority.create(folder.path);
    for (const [index, name] of ['gateway', 'runner-1', 'runner-2', 'host-1', 'host-2'].entries()) {
      hosts[name] = await network.addHost(name, 10 + index);
    }
    const forwarded = async (url: string) => {
      const there = new URL(url);
      there.port = String(await network.forward(Number(there.port)));
      there.hostname = network.gateway;
      return there.href;
    };
    const shared = {
      ...PATIENT,
      CODEDOCK_CAPABILITY_KEY: randomBytes(32).toString('hex'),
      CODEDOCK_LEASE_TTL: '4s',
      CODEDOCK_LEASE_HEARTBEAT: '1s',
    };
    const stores = {
      DATABASE_URL: await forwarded(database.url),
      QUEUE_URL: await forwarded((await requireRedis()).url),
    };
    const hooks = { PLUGIN_HOST_URL: ['host-1', 'host-2'].map((name) => `${at(name)}:7070`).join(',') };

    const start = async (app: string, name: string, env: Record<string, string>, ready: string) => {
      const { enter } = hosts[name] as Host;
      const [command, ...words] = enter;
      processes.push(
        await startProcess({
          command,
          args: [
            ...words,
            process.execPath,
            '--enable-source-maps',
            path.join(repositoryRoot(), 'apps', app, 'dist/main.js'),
          ],
          env: { ...shared, ...(await authority.issue(name, at(name))), ...env },
          ready,
          readyTimeoutMs: PATIENCE_MS,
          name,
        }),
      );
    };
    const key = `cdk_${randomBytes(32).toString('base64url')}`;
    const tenant = await store.tenants.ensure({ id: randomUUID(), name: 'default' });
    await store.keys.create({
      id: randomUUID(),
      tenantId: tenant.id,
      name: 'all',
      hash: createHash('sha256').update(key).digest('hex'),
      scopes: ['runs', 'approvals', 'admin'],
    });
    await start(
      'gateway',
      'gateway',
      {
        ...stores,
        ...hooks,
        CODEDOCK_HTTP_LISTEN: `${at('gateway')}:8080`,
        CODEDOCK_HOST_API_LISTEN: `${at('gateway')}:7071`,
      },
      `http://${at('gateway')}:8080/readyz`,
    );
    for (const name of ['host-1', 'host-2']) {
      await start(
        'plugin-host',
        name,
        {
          CODEDOCK_PLUGIN_DIR: pluginRoot(),
          PLUGIN_HOST_LISTEN: `${at(name)}:7070`,
          CODEDOCK_HOST_API_URL: `${at('gateway')}:7071`,
          CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `${at(name)}:8082`,
        },
        `http://${at(name)}:8082/readyz`,
      );
    }
    for (const name of ['runner-1', 'runner-2']) {
      await start(
        'runner',
        name,
        { ...stores, ...hooks, CODEDOCK_RUNNER_HEALTH_LISTEN: `${at(name)}:8081` },
        `http://${at(name)}:8081/readyz`,
      );
    }
    api = apiOf(`http://${at('gateway')}:8080`, key);
    await chainReady();
  }, SETUP_MS);

  afterAll(async () => {
    if (missing !== undefined) return;
    await Promise.all(Object.values(hosts).map((host) => network.heal(host)));
    const stopped = await Promise.allSettled(processes.map((each) => each.stop(40_000)));
    await db?.end();
    await store?.close();
    await database?.drop();
    await network.remove();
    await folder.remove();
    for (const result of stopped) if (result.status === 'rejected') throw result.reason;
  }, SETUP_MS);

  const at = (name: string) => (hosts[name] as Host).address;
  const cut = (name: string, ...from: readonly string[]) =>
    network.cut(
      hosts[name] as Host,
      from.map((other) => (other === 'stores' ? network.gateway : at(other))),
    );
  const heal = (name: string) => network.heal(hosts[name] as Host);

  async function chainReady(): Promise<void> {
    await eventually(async () => (await api<{ ready?: boolean }>('GET', '/v1/plugins/explain')).body.ready === true, {
      timeoutMs: PATIENCE_MS,
      what: 'the chain',
    });
  }

  async function start(content: string) {
    const session = await api<{ id: string }>('POST', '/v1/sessions', {});
    const answer = await api<{ run: RunView; code?: string }>('POST', `/v1/sessions/${session.body.id}/runs`, {
      content,
    });
    return { ...answer, sessionId: session.body.id };
  }

  async function ended(runId: string): Promise<RunView> {
    return eventually(
      async () => {
        const { body } = await api<RunView>('GET', `/v1/runs/${runId}`);
        return ENDED.has(body.status) && body;
      },
      { timeoutMs: PATIENCE_MS, what: `the end of ${runId}` },
    );
  }

  /** Resolves once every process that asks plugin-hosts reaches so many of them. */
  async function reach(hostCount: number): Promise<void> {
    const urls = [`${at('gateway')}:8080`, `${at('runner-1')}:8081`, `${at('runner-2')}:8081`];
    await eventually(
      async () => {
        for (const url of urls) {
          const text = await (await fetch(`http://${url}/metrics`, { headers: { connection: 'close' } })).text();
          expect({ url, text }).toMatchObject({
            text: expect.stringMatching(new RegExp(`^codedock_plugin_hosts\\{state="reachable"\\} ${hostCount}$`, 'm')),
          });
        }
      },
      { timeoutMs: PATIENCE_MS },
    );
  }

  /** Starts runs with a tool call each, awaits them, and counts how often the policy was asked for each. */
  async function gatedRuns(count: number) {
    const started = await Promise.all(
      Array.from({ length: count }, () => start(fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'done' }))),
    );
    expect(started.map(({ status }) => status)).toEqual(started.map(() => 201));
    for (const { body } of started) {
      expect(await ended(body.run.id)).toMatchObject({ status: 'completed' });
      expect(
        asked({ pluginRoot: pluginRoot() }, { runId: body.run.id, port: 'tools/pre-execute' }).length,
      ).toBeGreaterThan(0);
    }
  }

  it(
    'work together by mutual TLS',
    async () => {
      if (missing !== undefined) return;
      await gatedRuns(4);
    },
    PATIENCE_MS * 2,
  );

  it(
    'one plugin-host behind a black hole: every gate is asked at the other',
    async () => {
      if (missing !== undefined) return;
      await cut('host-1', 'gateway', 'runner-1', 'runner-2');
      // What is under way when the packets stop belongs to the budget of its gate; what counts is that it goes on once
      // every process knows.
      await reach(1);
      await gatedRuns(6);
      await heal('host-1');
      await reach(2);
      await gatedRuns(2);
    },
    PATIENCE_MS * 4,
  );

  it(
    'both plugin-hosts behind a black hole: input is refused, not let through, until they are back',
    async () => {
      if (missing !== undefined) return;
      for (const name of ['host-1', 'host-2']) await cut(name, 'gateway');
      const refused = await start('hello');
      expect(refused.status).toBe(503);
      expect(['gate_timeout', 'gate_unavailable']).toContain(refused.body.code);
      for (const name of ['host-1', 'host-2']) await heal(name);
      await eventually(async () => (await start(fakeScript({ text: 'back' }))).status === 201, {
        timeoutMs: PATIENCE_MS,
      });
    },
    PATIENCE_MS * 3,
  );

  it(
    'a runner cut off from the stores: another goes on, and nothing of the first is written after',
    async () => {
      if (missing !== undefined) return;
      // The run goes to the runner that can be told of it.
      await cut('runner-2', 'stores');
      const { body, sessionId } = await start(fakeScript({ text: 'long', delayMs: 8_000 }, { text: 'never' }));
      await eventually(async () => (await api<RunView>('GET', `/v1/runs/${body.run.id}`)).body.status === 'running', {
        timeoutMs: PATIENCE_MS,
      });
      await cut('runner-1', 'stores');
      await heal('runner-2');
      const run = await ended(body.run.id);
      expect(run.status).toBe('completed');
      expect(run.attempt).toBeGreaterThan(1);
      await heal('runner-1');
      await gatedRuns(4);
      const { rows } = await db.query<{ seq: string; type: string; attempt: number }>(
        'SELECT seq, type, attempt FROM events WHERE session_id = $1 ORDER BY seq',
        [sessionId],
      );
      expect(rows.map(({ seq }) => Number(seq))).toEqual(rows.map((_, index) => index + 1));
      expect(rows.filter(({ type }) => type === 'run.completed')).toHaveLength(1);
      expect(rows.at(-1)?.type).toBe('run.completed');
      // Attempts only rise: no event of an earlier one comes after one of a later.
      const attempts = rows.map(({ attempt }) => attempt ?? 0).filter((attempt) => attempt > 0);
      expect(attempts).toEqual([...attempts].sort((a, b) => a - b));
    },
    PATIENCE_MS * 4,
  );
});
