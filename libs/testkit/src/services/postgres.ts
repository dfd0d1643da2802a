import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { startEmbeddedPostgres } from '@codedock/embedded';
import { Client, escapeIdentifier } from 'pg';
import { repositoryRoot } from '../processes/start-process.js';
import { testServices } from './test-services.js';

/** A PostgreSQL server with a migrated template database. */
export interface TestPostgres {
  readonly adminUrl: string;
  readonly owner: { readonly user: string; readonly password: string };
  readonly template: string;
  readonly databasePrefix: string;
  /** Drops every database of this run and ends the server if this run started it. */
  stop(): Promise<void>;
}

/** A database of one test file, a copy of the migrated template. */
export interface TestDatabase {
  /** Connects as the owner; the role is no superuser on the embedded server. */
  readonly url: string;
  readonly name: string;
  /** Ends its connections and drops it. */
  drop(): Promise<void>;
}

/** Suites run side by side, each with several services and a pool in each of them. */
const SETTINGS = { max_connections: '300' };

/**
 * Starts an ephemeral server, or uses the one of `TEST_DATABASE_URL` (its role must be allowed to make databases),
 * and applies the migrations of `prisma/migrations` to a template database.
 */
export async function startTestPostgres(): Promise<TestPostgres> {
  const external = process.env['TEST_DATABASE_URL'];
  const embedded = external ? undefined : await startEmbeddedPostgres({ ephemeral: true, settings: SETTINGS });
  const adminUrl = external ?? embedded?.adminUrl ?? '';
  const { username, password } = new URL(embedded?.url ?? adminUrl);
  const owner = { user: decodeURIComponent(username), password: decodeURIComponent(password) };
  const databasePrefix = `codedock_test_${randomBytes(4).toString('hex')}`;
  const template = `${databasePrefix}_template`;
  const stop = async () => {
    if (embedded) {
      await embedded.stop();
    } else {
      await dropDatabases(adminUrl, databasePrefix);
    }
  };
  try {
    await asAdmin(adminUrl, `CREATE DATABASE ${escapeIdentifier(template)} OWNER ${escapeIdentifier(owner.user)}`);
    await applyMigrations(databaseUrl(adminUrl, owner, template));
  } catch (error) {
    await stop();
    throw error;
  }
  return { adminUrl, owner, template, databasePrefix, stop };
}

let made = 0;

/** Makes a database of its own for one test file. Drop it in `afterAll`. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { adminUrl, owner, template, databasePrefix } = testServices();
  made += 1;
  const name = `${databasePrefix}_${process.pid}_${made}_${randomBytes(2).toString('hex')}`;
  await asAdmin(
    adminUrl,
    `CREATE DATABASE ${escapeIdentifier(name)} TEMPLATE ${escapeIdentifier(template)} OWNER ${escapeIdentifier(owner.user)}`,
  );
  return {
    url: databaseUrl(adminUrl, owner, name),
    name,
    drop: () => asAdmin(adminUrl, `DROP DATABASE IF EXISTS ${escapeIdentifier(name)} WITH (FORCE)`),
  };
}

/** Applies the migrations of `prisma/migrations`. */
export async function applyMigrations(url: string): Promise<void> {
  const dir = path.join(repositoryRoot(), 'prisma', 'migrations');
  if (!existsSync(dir)) {
    return;
  }
  // Loaded only here: files without a database need no generated client.
  const { migrate } = await import('@codedock/store');
  await migrate({ url, dir });
}

function databaseUrl(adminUrl: string, owner: { user: string; password: string }, database: string): string {
  const url = new URL(adminUrl);
  url.username = encodeURIComponent(owner.user);
  url.password = encodeURIComponent(owner.password);
  url.pathname = `/${database}`;
  return url.href;
}

async function asAdmin(adminUrl: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

async function dropDatabases(adminUrl: string, prefix: string): Promise<void> {
  const client = new Client({ connectionString: adminUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [prefix],
    );
    for (const { datname } of rows) {
      await client.query(`DROP DATABASE IF EXISTS ${escapeIdentifier(datname)} WITH (FORCE)`);
    }
  } finally {
    await client.end();
  }
}
