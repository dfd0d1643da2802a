import { setTimeout as sleep } from 'node:timers/promises';
import type { JsonValue } from '@codedock/domain';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { cancelStatement } from './cancel-statement.js';
import type { StoreOptions } from './contract.js';
import { databaseError, isConflict, isGivenUp } from './database-error.js';
import { PrismaClient } from './generated/client.js';

/** The one pool of a process, and the two ways to use it: SQL for hot paths, Prisma for plain aggregates. */
export interface Database {
  readonly prisma: PrismaClient;
  readonly directUrl: string;
  /** Calls a SQL function that takes one jsonb and returns one. One statement. */
  call(name: string, input: unknown): Promise<JsonValue>;
  /** Rows of one statement. */
  rows<Row extends pg.QueryResultRow>(sql: string, values: readonly unknown[]): Promise<Row[]>;
  /** A statement whose failure the caller judges itself. */
  raw<Row extends pg.QueryResultRow>(sql: string, values: readonly unknown[]): Promise<Row[]>;
  /** What a Prisma call gives, its failures as the product's errors. */
  plain<T>(work: (prisma: PrismaClient) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 30_000;
/** How often a statement that loses to others at the same time is tried. */
const CONFLICT_TRIES = 5;

/** One statement on a connection of the pool; a connection on which one failed is not used again. */
async function statement<Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  sql: string,
  values: readonly unknown[],
): Promise<Row[]> {
  const client = await pool.connect();
  // A connection that breaks meanwhile fails the statement as well.
  const ignore = () => undefined;
  client.on('error', ignore);
  let failed = true;
  try {
    const { rows } = await client.query<Row>(sql, [...values]);
    failed = false;
    return rows;
  } catch (error) {
    if (isGivenUp(error)) cancelStatement(client);
    throw error;
  } finally {
    client.off('error', ignore);
    client.release(failed);
  }
}

/** Opens a pool. Connects lazily. */
export function openDatabase(options: StoreOptions): Database {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.maxConnections ?? 10,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // On this side: a server behind a dead network ends nothing by itself.
    query_timeout: options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'codedock',
  });
  // A connection that breaks while idle must not end the process; the next query opens another.
  pool.on('error', (error) => options.onConnectionError?.(error));
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { disposeExternalPool: false }) });

  async function raw<Row extends pg.QueryResultRow>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await statement<Row>(pool, sql, values);
      } catch (error) {
        if (tries === CONFLICT_TRIES || !isConflict(error)) throw error;
      }
      // Not all of those who lost at the same moment come back at the same moment.
      await sleep(Math.random() * 10 * tries);
    }
  }
  async function rows<Row extends pg.QueryResultRow>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    try {
      return await raw<Row>(sql, values);
    } catch (error) {
      throw databaseError(error);
    }
  }
  return {
    prisma,
    directUrl: options.directUrl ?? options.url,
    raw,
    rows,
    async call(name, input) {
      const [row] = await rows<{ result: JsonValue }>(`SELECT ${name}($1::jsonb) AS result`, [JSON.stringify(input)]);
      return row?.result ?? null;
    },
    async plain(work) {
      try {
        return await work(prisma);
      } catch (error) {
        throw databaseError(error);
      }
    },
    async close() {
      await prisma.$disconnect();
      await pool.end();
    },
  };
}
