import { createHash, randomBytes } from 'node:crypto';
import type { Scope } from '@codedock/domain';
import { createLogger, readConfig, Shutdown } from '@codedock/platform';
import { prepareQueueSchema } from '@codedock/queue';
import { openStore, type Store } from '@codedock/store';
import { ids } from '../ids.js';
import { serveGateway } from '../serve.js';

/** A gateway of one test file, in this process, on a real database. */
export interface TestGateway {
  readonly url: string;
  /** A store of the test's own, beside the gateway's. */
  readonly store: Store;
  /** A tenant with a key of all scopes. */
  tenant(name: string): Promise<TestTenant>;
  /** Stops it as SIGTERM does. */
  stop(): Promise<boolean>;
  /** Sends a request and reads its JSON. */
  send(method: string, path: string, options?: SendOptions): Promise<TestAnswer>;
}

export interface TestTenant {
  readonly id: string;
  readonly key: string;
  readonly keyId: string;
  /** Another key of the tenant. */
  newKey(scopes: readonly Scope[], options?: { readonly expiresAt?: string }): Promise<{ id: string; key: string }>;
}

export interface SendOptions {
  readonly key?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is, as application/json unless the headers say otherwise. */
  readonly raw?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came back.
  readonly body: any;
}

/** Starts a gateway on an empty, migrated database. */
export async function startTestGateway(
  databaseUrl: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<TestGateway> {
  await prepareQueueSchema(databaseUrl);
  const logger = createLogger({ app: 'gateway', level: environment['CODEDOCK_LOG_LEVEL'] ?? 'silent', format: 'json' });
  const shutdown = new Shutdown({ logger, exit: () => undefined });
  const config = readConfig('gateway', {
    DATABASE_URL: databaseUrl,
    CODEDOCK_HTTP_LISTEN: '127.0.0.1:0',
    CODEDOCK_DATABASE_POOL_SIZE: '5',
    ...environment,
  });
  const { url } = await serveGateway({ config, logger, telemetry: { metricsHandler: undefined }, shutdown });
  const store = await openStore({ url: databaseUrl, maxConnections: 2 });
  return {
    url,
    store,
    tenant: (name) => makeTenant(store, name),
    stop: async () => {
      const clean = await shutdown.run('the test is over');
      await store.close();
      return clean;
    },
    send: (method, path, options) => send(`${url}${path}`, method, options),
  };
}

async function makeTenant(store: Store, name: string): Promise<TestTenant> {
  const { id } = await store.tenants.ensure({ id: ids.next(), name });
  const newKey: TestTenant['newKey'] = async (scopes, options = {}) => {
    const key = `cdk_${randomBytes(24).toString('hex')}`;
    const hash = createHash('sha256').update(key).digest('hex');
    const keyId = ids.next();
    await store.keys.create({ id: keyId, tenantId: id, name: `key-${keyId.slice(-12)}`, hash, scopes, ...options });
    return { id: keyId, key };
  };
  const first = await newKey(['runs', 'approvals', 'admin']);
  return { id, key: first.key, keyId: first.id, newKey };
}

async function send(url: string, method: string, { key, body, raw, headers }: SendOptions = {}): Promise<TestAnswer> {
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(url, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
      connection: 'close',
      ...headers,
    },
    ...(sent === undefined ? {} : { body: sent }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
}
