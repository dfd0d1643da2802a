import { createHash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { AppError } from '@codedock/domain';
import pg from 'pg';
import { databaseError } from './database-error.js';

/** The advisory lock that `prisma migrate deploy` takes. */
const LOCK = 72_707_369;

export interface MigrateOptions {
  /** A direct connection, not through a transaction pooler. */
  readonly url: string;
  /** Folder of migrations; default: `prisma/migrations` of this repository. */
  readonly dir?: string;
}

/** What was done. */
export interface Migrated {
  /** Names of the migrations applied now, in order. */
  readonly applied: readonly string[];
}

/**
 * Applies what is missing, exactly as `prisma migrate deploy` does – same table, checksums and lock, so that both may be
 * used on one database – without any engine. Safe to run concurrently. Throws store_unavailable when the database cannot
 * be reached, config_invalid when a migration failed before, fails now, or was edited after it was applied.
 */
export async function migrate({ url, dir = defaultDirectory() }: MigrateOptions): Promise<Migrated> {
  const wanted = await readMigrations(dir);
  const client = new pg.Client({ connectionString: url, application_name: 'codedock migrate' });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('SELECT pg_advisory_lock($1)', [LOCK]);
    const applied = await applyMissing(client, wanted);
    await forgetForeignTransactions(client);
    return { applied };
  } catch (error) {
    throw databaseError(error);
  } finally {
    // Ends the session, and with it the lock.
    await client.end().catch(() => undefined);
  }
}

interface Migration {
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

async function readMigrations(dir: string): Promise<Migration[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return Promise.all(
    names.sort().map(async (name) => {
      const sql = await readFile(path.join(dir, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

async function applyMissing(client: pg.Client, wanted: readonly Migration[]): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id VARCHAR(36) PRIMARY KEY NOT NULL, checksum VARCHAR(64) NOT NULL, finished_at TIMESTAMPTZ,
    migration_name VARCHAR(255) NOT NULL, logs TEXT, rolled_back_at TIMESTAMPTZ,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(), applied_steps_count INTEGER NOT NULL DEFAULT 0)`);
  const { rows } = await client.query<{ migration_name: string; checksum: string; finished_at: Date | null }>(
    'SELECT migration_name, checksum, finished_at FROM _prisma_migrations WHERE rolled_back_at IS NULL',
  );
  const failed = rows.find((row) => row.finished_at === null);
  if (failed !== undefined) {
    throw new AppError(
      'config_invalid',
      `Migration ${failed.migration_name} failed before; repair the database, then mark it with "prisma migrate resolve".`,
    );
  }
  const known = new Map(rows.map((row) => [row.migration_name, row.checksum]));
  const applied: string[] = [];
  for (const migration of wanted) {
    const checksum = known.get(migration.name);
    if (checksum === undefined) {
      await apply(client, migration);
      applied.push(migration.name);
    } else if (checksum !== migration.checksum) {
      throw new AppError(
        'config_invalid',
        `Migration ${migration.name} was edited after it was applied; restore it and add another one.`,
      );
    }
  }
  return applied;
}

async function apply(client: pg.Client, { name, sql, checksum }: Migration): Promise<void> {
  const id = randomUUID();
  await client.query('INSERT INTO _prisma_migrations (id, checksum, migration_name) VALUES ($1, $2, $3)', [
    id,
    checksum,
    name,
  ]);
  try {
    await client.query(sql);
  } catch (error) {
    await client.query('UPDATE _prisma_migrations SET logs = $2 WHERE id = $1', [id, String(error)]);
    throw new AppError('config_invalid', `Migration ${name} failed: ${(error as Error).message}`, { cause: error });
  }
  await client.query(
    'UPDATE _prisma_migrations SET finished_at = now(), applied_steps_count = applied_steps_count + 1 WHERE id = $1',
    [id],
  );
}

/**
 * A dump that is restored into another server brings transaction ids of the former one, which begin anew there: cursors
 * would wait for numbers that come in years. All events are of the past then, so they get the first id there is, and the
 * cursors go on from now: what was not delivered before the dump is not delivered after it.
 */
async function forgetForeignTransactions(client: pg.Client): Promise<void> {
  const cursors = ['event_cursors', 'plugin_cursors'];
  const { rows } = await client.query<{ there: boolean }>(
    `SELECT bool_and(to_regclass(name) IS NOT NULL) AS there FROM unnest($1::text[]) AS name`,
    [cursors],
  );
  if (rows[0]?.there !== true) return;
  const ahead = 'txid > pg_snapshot_xmax(pg_current_snapshot())';
  const found = await client.query(
    cursors.map((cursor) => `SELECT 1 FROM ${cursor} WHERE ${ahead}`).join(' UNION ALL '),
  );
  if (found.rows.length === 0) return;
  await client.query('BEGIN');
  await client.query(`UPDATE events SET txid = '3' WHERE ${ahead}`);
  for (const cursor of cursors) {
    await client.query(`UPDATE ${cursor} SET txid = pg_snapshot_xmin(pg_current_snapshot())`);
  }
  await client.query('COMMIT');
}

/** From `libs/store/src` and `libs/store/dist` alike. */
function defaultDirectory(): string {
  return path.join(__dirname, '..', '..', '..', 'prisma', 'migrations');
}
