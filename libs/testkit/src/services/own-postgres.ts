import { type EmbeddedPostgres, startEmbeddedPostgres } from '@codedock/embedded';
import { freePort } from '../processes/free-port.js';
import { temporaryFolder } from '../processes/leftovers.js';
import { applyMigrations, type TestDatabase } from './postgres.js';

/** Ways in which a server ends: its clients are told, or told that it is a crash, or nobody is told anything. */
const SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT', kill: 'SIGKILL' } as const;

/** `kill`: kill -9 of the postmaster, whose backends find out by themselves. */
export type PostgresEnd = keyof typeof SIGNALS;

/** A PostgreSQL server of a test's own, which may be ended and started again. */
export interface OwnPostgres {
  /** Its migrated database. Dropping it does nothing: it goes with the server. */
  readonly database: TestDatabase;
  /** Connects as superuser to the migrated database. */
  readonly adminUrl: string;
  /** Ends the server; resolves when its process is gone. */
  end(how: PostgresEnd): Promise<void>;
  /** True when the server is not there, whoever or whatever ended it. */
  hasEnded(): boolean;
  /** Starts it on the same port with what it had committed; resolves when it takes connections. */
  restart(): Promise<void>;
  /** Ends it and deletes its files. */
  stop(): Promise<void>;
}

/** Nothing waits for the disk: what a server has written outlives its processes, and only a machine would lose it. */
export const OWN_POSTGRES_SETTINGS = { fsync: 'off', full_page_writes: 'off', max_connections: '200' };

/** Where a server's files are, and what is set beside the usual. */
export interface OwnPostgresOptions {
  /** Absolute path of a folder that is there, such as a small file system, and stays; default: a temporary one. */
  readonly folder?: string;
  readonly settings?: Readonly<Record<string, string>>;
}

/** Starts a server on a free loopback port and migrates its database. */
export async function startPostgres(options: OwnPostgresOptions = {}): Promise<OwnPostgres> {
  const folder =
    options.folder === undefined
      ? await temporaryFolder('codedock-postgres-')
      : { path: options.folder, remove: async () => undefined };
  // The same after every restart: nobody else may get it while the server is away.
  const port = await freePort();
  const start = () =>
    startEmbeddedPostgres({ dataDir: folder.path, settings: { ...OWN_POSTGRES_SETTINGS, ...options.settings }, port });
  let server: EmbeddedPostgres | undefined;
  let over = false;
  const watch = (started: EmbeddedPostgres) => {
    over = false;
    void started.exited.then(() => {
      if (server === started) over = true;
    });
  };
  const ended = async () => {
    await server?.stop();
    server = undefined;
  };
  try {
    const first = await start();
    server = first;
    watch(first);
    await applyMigrations(first.url);
    const name = new URL(first.url).pathname.slice(1);
    const adminUrl = new URL(first.adminUrl);
    adminUrl.pathname = `/${name}`;
    return {
      database: { url: first.url, name, drop: async () => undefined },
      adminUrl: adminUrl.href,
      async end(how) {
        if (server === undefined) return;
        process.kill(server.pid, SIGNALS[how]);
        await server.exited;
        await ended();
      },
      hasEnded: () => server === undefined || over,
      async restart() {
        await ended();
        server = await start();
        watch(server);
      },
      async stop() {
        await ended();
        await folder.remove();
      },
    };
  } catch (error) {
    await ended();
    await folder.remove();
    throw error;
  }
}
