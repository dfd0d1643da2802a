import type { EmbeddedPostgresAddress } from '@codedock/embedded';
import pg from 'pg';

/** How often statements ran: the product's own, and those of the queue library. */
export interface StatementCounts {
  readonly own: number;
  readonly queue: number;
}

/** One statement's text, as the server keeps it, and how often it ran. */
export interface StatementCount {
  readonly query: string;
  readonly calls: number;
}

/** Functions, tables and settings of the queue library. */
const QUEUE_STATEMENT =
  /bullmq|\b(add_job|move_\w+|next_signal|has_waiting|next_delay|extend_locks?|retry_job)\(|min_client_version/i;

/** The product's database by a role whose statements are not counted. */
export function uncountedUrl({ url, adminUrl }: Pick<EmbeddedPostgresAddress, 'url' | 'adminUrl'>): string {
  const address = new URL(adminUrl);
  address.pathname = new URL(url).pathname;
  return address.href;
}

/** Counts statements on the server, by the extension pg_stat_statements; what its own role runs is not counted. */
export class Statements {
  private constructor(private readonly client: pg.Client) {}

  static async open({ url, adminUrl }: EmbeddedPostgresAddress): Promise<Statements> {
    const client = new pg.Client({ connectionString: uncountedUrl({ url, adminUrl }) });
    client.on('error', () => undefined);
    await client.connect();
    await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
    return new Statements(client);
  }

  /** Begins to count from zero. */
  async reset(): Promise<void> {
    await this.client.query('SELECT pg_stat_statements_reset()');
  }

  /** All statements since the last `reset`, most frequent first. */
  async all(): Promise<StatementCount[]> {
    const { rows } = await this.client.query<{ query: string; calls: string }>(
      `SELECT query, sum(calls) AS calls FROM pg_stat_statements
       WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user) GROUP BY query ORDER BY 2 DESC`,
    );
    return rows.map(({ query, calls }) => ({ query, calls: Number(calls) }));
  }

  /** Counts since the last `reset`. */
  async counts(): Promise<StatementCounts> {
    let own = 0;
    let queue = 0;
    for (const { query, calls } of await this.all()) {
      if (QUEUE_STATEMENT.test(query)) queue += calls;
      else own += calls;
    }
    return { own, queue };
  }

  async close(): Promise<void> {
    await this.client.end();
  }
}
