import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { SCOPES } from '@codedock/domain';
import { startEmbeddedPostgres } from '@codedock/embedded';
import { prepareQueueSchema } from '@codedock/queue';
import { migrate, openStore, type Store } from '@codedock/store';
import {
  freePort,
  repositoryRoot,
  startProcess,
  type TestProcess,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import pg from 'pg';
import { Statements, uncountedUrl } from './statements.js';

/** How a system is started. */
export interface RunSystemOptions {
  /** Queue and bus are there; without it on PostgreSQL. */
  readonly redisUrl?: string | undefined;
  /** Variables of its services. */
  readonly env?: Readonly<Record<string, string>>;
  /** Settings of its PostgreSQL. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Source of a plugin; without it there is no plugin-host. */
  readonly plugin?: string;
}

/** Gateway and runner as processes over an embedded PostgreSQL that waits for its disk, as in production. */
export interface RunSystem {
  readonly url: string;
  readonly key: string;
  readonly store: Store;
  /** For looking on: its statements are not counted. */
  readonly db: pg.Pool;
  readonly statements: Statements;
  readonly gateway: TestProcess;
  readonly pluginHost: TestProcess | undefined;
  /** /metrics of every process, in the order they were started. */
  readonly metricsUrls: readonly string[];
  startRunner(): Promise<TestProcess>;
  stop(): Promise<void>;
}

/** Starts everything but runners. */
export async function startRunSystem(options: RunSystemOptions): Promise<RunSystem> {
  const { redisUrl, env: more = {}, settings = {}, plugin } = options;
  const closing: (() => unknown)[] = [];
  const stop = async () => {
    for (const close of closing.splice(0).reverse()) await close();
  };
  try {
    const folder = await temporaryFolder('codedock-bench-');
    closing.push(() => folder.remove());
    const postgres = await startEmbeddedPostgres({
      dataDir: path.join(folder.path, 'postgres'),
      settings: { shared_preload_libraries: 'pg_stat_statements', ...settings },
    });
    closing.push(() => postgres.stop());
    await migrate({ url: postgres.url });
    if (redisUrl === undefined) await prepareQueueSchema(postgres.url);
    const store = await openStore({ url: postgres.url, maxConnections: 16 });
    closing.push(() => store.close());
    const db = new pg.Pool({ connectionString: uncountedUrl(postgres), max: 2 });
    // The server may end a connection that is just being given up.
    db.on('error', () => undefined);
    closing.push(() => db.end());
    const statements = await Statements.open(postgres);
    closing.push(() => statements.close());
    const key = await createKey(store);

    const internal = {
      CODEDOCK_INTERNAL_TOKEN: randomBytes(24).toString('hex'),
      CODEDOCK_CAPABILITY_KEY: randomBytes(32).toString('hex'),
      ...more,
    };
    const gates = `127.0.0.1:${await freePort()}`;
    const shared = {
      ...internal,
      DATABASE_URL: postgres.url,
      QUEUE_URL: redisUrl ?? postgres.url,
      ...(plugin === undefined ? {} : { PLUGIN_HOST_URL: gates }),
    };
    const start = async (app: string, env: Record<string, string>, ready: string) => {
      const started = await startProcess({
        name: app,
        command: process.execPath,
        args: ['--enable-source-maps', path.join(repositoryRoot(), 'apps', app, 'dist/main.js')],
        env,
        ready,
      });
      closing.push(() => (started.hasExited() ? undefined : started.stop()));
      return started;
    };
    const [http, hostApi] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${http}`;
    const gateway = await start(
      'gateway',
      {
        ...shared,
        CODEDOCK_HTTP_LISTEN: `127.0.0.1:${http}`,
        CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApi}`,
      },
      // It is ready once its plugins are, which ask it.
      `${url}/${plugin === undefined ? 'readyz' : 'healthz'}`,
    );
    const metricsUrls = [`${url}/metrics`];
    const startPluginHost = async (source: string) => {
      const root = path.join(folder.path, 'plugins');
      await mkdir(root, { mode: 0o755 });
      await writePlugin(root, 'bench', { source });
      const health = `127.0.0.1:${await freePort()}`;
      metricsUrls.push(`http://${health}/metrics`);
      const env = {
        ...internal,
        CODEDOCK_PLUGIN_DIR: root,
        PLUGIN_HOST_LISTEN: gates,
        CODEDOCK_HOST_API_URL: `127.0.0.1:${hostApi}`,
        CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: health,
      };
      return start('plugin-host', env, `http://${health}/readyz`);
    };
    const pluginHost = plugin === undefined ? undefined : await startPluginHost(plugin);
    const startRunner = async () => {
      const health = `127.0.0.1:${await freePort()}`;
      metricsUrls.push(`http://${health}/metrics`);
      return start('runner', { ...shared, CODEDOCK_RUNNER_HEALTH_LISTEN: health }, `http://${health}/readyz`);
    };
    return { url, key, store, db, statements, gateway, pluginHost, metricsUrls, startRunner, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function createKey(store: Store): Promise<string> {
  const key = `cdk_${randomBytes(32).toString('base64url')}`;
  const { id: tenantId } = await store.tenants.ensure({ id: randomUUID(), name: 'default' });
  const hash = createHash('sha256').update(key).digest('hex');
  await store.keys.create({ id: randomUUID(), tenantId, name: 'bench', hash, scopes: SCOPES });
  return key;
}
