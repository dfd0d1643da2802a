import { createHash, randomBytes, randomUUID } from 'node:crypto';
import path from 'node:path';
import { SCOPES } from '@codedock/domain';
import { startEmbeddedPostgres } from '@codedock/embedded';
import { prepareQueueSchema } from '@codedock/queue';
import { migrate, openStore, type Store } from '@codedock/store';
import { freePort, repositoryRoot, startProcess, type TestProcess, temporaryFolder } from '@codedock/testkit';
import pg from 'pg';
import { Statements, uncountedUrl } from './statements.js';

/** Gateway and runner as processes over an embedded PostgreSQL that waits for its disk, as in production. */
export interface RunSystem {
  readonly url: string;
  readonly key: string;
  readonly store: Store;
  /** For looking on: its statements are not counted. */
  readonly db: pg.Pool;
  readonly statements: Statements;
  readonly gateway: TestProcess;
  /** /metrics of every process, in the order they were started. */
  readonly metricsUrls: readonly string[];
  startRunner(): Promise<TestProcess>;
  stop(): Promise<void>;
}

/** Starts a system whose queue and bus are on PostgreSQL, or on the Redis at `redisUrl`; `more` goes to its services. */
export async function startRunSystem(
  redisUrl: string | undefined,
  more: Readonly<Record<string, string>> = {},
): Promise<RunSystem> {
  const closing: (() => unknown)[] = [];
  const stop = async () => {
    for (const close of closing.splice(0).reverse()) await close();
  };
  try {
    const folder = await temporaryFolder('codedock-bench-');
    closing.push(() => folder.remove());
    const postgres = await startEmbeddedPostgres({
      dataDir: path.join(folder.path, 'postgres'),
      settings: { shared_preload_libraries: 'pg_stat_statements' },
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

    const shared = {
      CODEDOCK_INTERNAL_TOKEN: randomBytes(24).toString('hex'),
      CODEDOCK_CAPABILITY_KEY: randomBytes(32).toString('hex'),
      DATABASE_URL: postgres.url,
      QUEUE_URL: redisUrl ?? postgres.url,
      ...more,
    };
    const start = async (app: string, env: Record<string, string>, ready: string) => {
      const started = await startProcess({
        name: app,
        command: process.execPath,
        args: ['--enable-source-maps', path.join(repositoryRoot(), 'apps', app, 'dist/main.js')],
        env: { ...shared, ...env },
        ready,
      });
      closing.push(() => (started.hasExited() ? undefined : started.stop()));
      return started;
    };
    const [http, hostApi] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${http}`;
    const gateway = await start(
      'gateway',
      { CODEDOCK_HTTP_LISTEN: `127.0.0.1:${http}`, CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApi}` },
      `${url}/readyz`,
    );
    const metricsUrls = [`${url}/metrics`];
    const startRunner = async () => {
      const health = `127.0.0.1:${await freePort()}`;
      metricsUrls.push(`http://${health}/metrics`);
      return start('runner', { CODEDOCK_RUNNER_HEALTH_LISTEN: health }, `http://${health}/readyz`);
    };
    return { url, key, store, db, statements, gateway, metricsUrls, startRunner, stop };
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
