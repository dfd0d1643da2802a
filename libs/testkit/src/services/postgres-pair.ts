import { execFile } from 'node:child_process';
import { chown, copyFile, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '@codedock/embedded';
import { Client } from 'pg';
import { eventually } from '../processes/eventually.js';
import { freePort } from '../processes/free-port.js';
import { type TemporaryFolder, temporaryFolder } from '../processes/leftovers.js';
import { OWN_POSTGRES_SETTINGS } from './own-postgres.js';
import { applyMigrations, type TestDatabase } from './postgres.js';

/** A PostgreSQL server, and a standby that has every commit before it is acknowledged. */
export interface PostgresPair {
  /** Its migrated database, at the first primary. Dropping it does nothing: it goes with the servers. */
  readonly database: TestDatabase;
  /** Loopback port of the primary. */
  port(): number;
  /** kill -9 of the primary's postmaster; resolves when that is gone. It never comes back. */
  killPrimary(): Promise<void>;
  /** Makes the standby the primary; resolves when it takes writes. */
  promote(): Promise<void>;
  /** Makes a standby for a primary that has none, while that works; resolves when its commits are synchronous again. */
  restore(): Promise<void>;
  /** Ends what runs and deletes all files. */
  stop(): Promise<void>;
}

interface Server {
  readonly folder: TemporaryFolder;
  readonly postgres: EmbeddedPostgres;
}

const run = promisify(execFile);

/** Shared memory lies in files of the server: a killed one is never started again, which is what would clear the other kind. */
const SETTINGS = { wal_keep_size: '256MB', dynamic_shared_memory_type: 'mmap' };

/** Starts two servers on free loopback ports and migrates their database. */
export async function startPostgresPair(): Promise<PostgresPair> {
  const servers: Server[] = [];
  const start = async (folder: TemporaryFolder, settings: Readonly<Record<string, string>> = {}): Promise<Server> => {
    const port = await freePort();
    const all = { ...OWN_POSTGRES_SETTINGS, ...SETTINGS, ...settings };
    const server = { folder, postgres: await startEmbeddedPostgres({ dataDir: folder.path, settings: all, port }) };
    servers.push(server);
    return server;
  };
  const stop = async () => {
    for (const { folder, postgres } of servers.splice(0).reverse()) {
      await postgres.stop();
      await folder.remove();
    }
  };
  let primary: Server;
  let standby: Server | undefined;
  const restore = async () => {
    const folder = await temporaryFolder('codedock-postgres-');
    const { username, password } = new URL(primary.postgres.adminUrl);
    await copyCluster(primary, folder.path);
    standby = await start(folder, {
      primary_conninfo: `host=127.0.0.1 port=${primary.postgres.port} user=${username} password=${password}`,
    });
    // Only from here on: before, every commit would wait for a standby that is not there.
    await asAdmin(primary, async (client) => {
      await client.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
      await client.query('SELECT pg_reload_conf()');
      await eventually(
        async () => {
          const { rows } = await client.query<{ sync_state: string }>('SELECT sync_state FROM pg_stat_replication');
          if (rows[0]?.sync_state !== 'sync') throw new Error(`its standby is ${rows[0]?.sync_state}`);
        },
        { timeoutMs: 60_000, what: 'the standby to follow' },
      );
    });
  };
  try {
    primary = await start(await temporaryFolder('codedock-postgres-'));
    await applyMigrations(primary.postgres.url);
    await restore();
  } catch (error) {
    await stop();
    throw error;
  }
  const { url } = primary.postgres;
  return {
    database: { url, name: new URL(url).pathname.slice(1), drop: async () => undefined },
    port: () => primary.postgres.port,
    async killPrimary() {
      process.kill(primary.postgres.pid, 'SIGKILL');
      await primary.postgres.exited;
    },
    async promote() {
      if (standby === undefined) throw new Error('there is no standby');
      const { rows } = await asAdmin(standby, (client) =>
        client.query<{ promoted: boolean }>('SELECT pg_promote(true, 60) AS promoted'),
      );
      if (rows[0]?.promoted !== true) throw new Error('the standby was not promoted within a minute');
      const former = primary;
      primary = standby;
      standby = undefined;
      servers.splice(servers.indexOf(former), 1);
      await former.postgres.stop();
      await removeSegment(former.postgres.clusterDir);
      await former.folder.remove();
    },
    restore,
    stop,
  };
}

/** A copy of a running server's files from which a standby can start (PostgreSQL's manual, 25.3.3, low-level base backup). */
async function copyCluster({ folder, postgres }: Server, into: string): Promise<void> {
  const cluster = path.join(into, 'cluster');
  const label = await asAdmin({ postgres }, async (client) => {
    await client.query("SELECT pg_backup_start('standby', true)");
    await run('cp', ['-a', postgres.clusterDir, cluster], { env: { ...process.env, LC_ALL: 'C' } }).catch(onlyVanished);
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    return rows[0]?.labelfile ?? '';
  });
  await rm(path.join(cluster, 'postmaster.pid'), { force: true });
  const { uid, gid } = await stat(cluster);
  for (const [name, content] of [
    ['backup_label', label],
    ['standby.signal', ''],
  ] as const) {
    await writeFile(path.join(cluster, name), content, { mode: 0o600 });
    await chown(path.join(cluster, name), uid, gid);
  }
  await copyFile(path.join(folder.path, 'credentials.json'), path.join(into, 'credentials.json'));
}

async function asAdmin<T>({ postgres }: Pick<Server, 'postgres'>, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: postgres.adminUrl });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Files that vanish while they are copied are none that a backup needs. Throws at any other complaint of `cp`. */
function onlyVanished(error: Error & { readonly stderr?: string }): void {
  const complaints = error.stderr?.trim().split('\n') ?? [];
  if (complaints.length === 0 || complaints.some((line) => !line.endsWith('No such file or directory'))) throw error;
}

/**
 * A killed server leaves its System V segment, which outlives its processes; `postmaster.pid` says which (line 7, key and
 * number).
 */
async function removeSegment(clusterDir: string): Promise<void> {
  const [, , , , , , segment = ''] = (await readFile(path.join(clusterDir, 'postmaster.pid'), 'utf8')).split('\n');
  await run('ipcrm', ['-m', segment.trim().split(/\s+/)[1] ?? '']);
}
