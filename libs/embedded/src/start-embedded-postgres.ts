import { chmod, chown, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { Client, escapeIdentifier, escapeLiteral } from 'pg';
import { prepareBinaries } from './binaries.js';
import { ADMIN_ROLE, APP_ROLE, type Cluster, type Credentials, openCluster, readCredentials } from './cluster.js';
import { EmbeddedPostgresError } from './errors.js';
import { freeLoopbackPort, isPortFree } from './port.js';
import { endLeftovers, endServer, runningPostmaster } from './postmaster.js';
import { canEnter, type RunIdentity, unprivilegedIdentity } from './run-identity.js';
import { launchServer, type ServerProcess } from './server-process.js';
import { claimStarterLock, type StarterLock } from './starter-lock.js';
import { untilTrue } from './until.js';

const DATABASE = 'codedock';

/** What to start. Give `dataDir`, or `ephemeral: true`. */
export interface EmbeddedPostgresOptions {
  /** Folder that keeps cluster, passwords and port; made when missing. Ignored when `ephemeral`. */
  readonly dataDir?: string;
  /** Fixed loopback port; taken is an error. Without it: the port of the last start if free, else any free one. */
  readonly port?: number;
  /** Gets every line that the server logs. */
  readonly log?: (line: string) => void;
  /** For tests: a temporary data folder that is removed at the end, no waiting for the disk (`fsync=off`). */
  readonly ephemeral?: boolean;
  /** Further server settings, e.g. `{ log_statement: 'all' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** How long start (recovery after a crash included) may take, milliseconds. Default 60,000. */
  readonly startTimeoutMs?: number;
}

/** Where a running embedded PostgreSQL is. The URLs contain passwords: never log them. */
export interface EmbeddedPostgresAddress {
  /** Database `codedock` as its owner. */
  readonly url: string;
  /** Database `postgres` as superuser: makes and drops databases. */
  readonly adminUrl: string;
  readonly port: number;
  readonly pid: number;
}

/** A server that this process started. It ends with this process, however that ends. */
export interface EmbeddedPostgres extends EmbeddedPostgresAddress {
  /** Real path of the folder with the cluster's files. */
  readonly clusterDir: string;
  /** Settles with the exit code when the server has ended, asked for or not. */
  readonly exited: Promise<number | null>;
  /** Fast shutdown, immediate shutdown after 30 s. Safe to call twice. */
  stop(): Promise<void>;
}

const STOP_TIMEOUT_MS = 30_000;
const START_TIMEOUT_MS = 60_000;
const PORT_ATTEMPTS = 5;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '60',
  shared_buffers: '32MB',
  password_encryption: 'scram-sha-256',
  timezone: 'UTC',
  log_timezone: 'UTC',
  jit: 'off',
};

const EPHEMERAL_SETTINGS: Readonly<Record<string, string>> = {
  fsync: 'off',
  full_page_writes: 'off',
};

/**
 * Starts the real PostgreSQL 18 of the installed npm package, on loopback only, with passwords (SCRAM).
 * What an earlier, killed starter left of the same data folder is ended first, verified by process.
 *
 * @throws EmbeddedPostgresError with the remedy: package missing, folder or port not usable, already started by
 * another process, not ready in time.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const identity = unprivilegedIdentity();
  const ephemeral = options.ephemeral === true;
  const dataDir = ephemeral ? await makeTemporaryDataDir(identity) : await makeDataDir(options.dataDir, identity);
  const lock = await claimStarterLock(dataDir);
  try {
    const binaries = await prepareBinaries(identity);
    const cluster = await openCluster({ dataDir, binaries, identity, ephemeral });
    await endLeftovers(cluster.clusterDir, STOP_TIMEOUT_MS);
    const launched = await launchOnFreePort(options, dataDir, cluster, (port) =>
      launchServer({
        binaries,
        clusterDir: cluster.clusterDir,
        port,
        settings: { ...SETTINGS, ...(ephemeral ? EPHEMERAL_SETTINGS : {}), ...options.settings },
        identity,
        removeAtEnd: ephemeral ? dataDir : undefined,
        log: options.log ?? (() => undefined),
      }),
    );
    return running(launched, cluster, ephemeral ? dataDir : undefined, lock);
  } catch (error) {
    await lock.release();
    if (ephemeral) {
      await rm(dataDir, { recursive: true, force: true });
    }
    throw error;
  }
}

/** The running server of `dataDir`, whoever started it; absent when none runs. For tools beside the services. */
export async function findEmbeddedPostgres(dataDir: string): Promise<EmbeddedPostgresAddress | undefined> {
  const clusterDir = await realpath(path.join(dataDir, 'cluster')).catch(() => undefined);
  const server = clusterDir ? await runningPostmaster(clusterDir) : undefined;
  const credentials = server ? await readCredentials(dataDir) : undefined;
  if (!server?.ready || !credentials) {
    return undefined;
  }
  return { ...urls(server.port, credentials), port: server.port, pid: server.pid };
}

interface Launched {
  readonly server: ServerProcess;
  readonly port: number;
  readonly pid: number;
}

async function launchOnFreePort(
  options: EmbeddedPostgresOptions,
  dataDir: string,
  cluster: Cluster,
  launch: (port: number) => ServerProcess,
): Promise<Launched> {
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await choosePort(dataDir));
    const server = launch(port);
    try {
      const pid = await untilReady(server, cluster, port, options.startTimeoutMs ?? START_TIMEOUT_MS);
      await writeFile(path.join(dataDir, 'port'), String(port), { mode: 0o600 });
      return { server, port, pid };
    } catch (error) {
      server.release();
      await server.exited;
      // Another process may take the port between the probe and the server's own bind.
      const lostPort = server.lastLines.some((line) => line.includes('could not bind'));
      if (!lostPort || options.port !== undefined || attempt === PORT_ATTEMPTS) {
        throw error;
      }
      await rm(path.join(dataDir, 'port'), { force: true });
    }
  }
}

async function choosePort(dataDir: string): Promise<number> {
  const kept = Number(await readFile(path.join(dataDir, 'port'), 'utf8').catch(() => ''));
  return Number.isInteger(kept) && kept > 0 && (await isPortFree(kept)) ? kept : freeLoopbackPort();
}

async function untilReady(server: ServerProcess, cluster: Cluster, port: number, timeoutMs: number): Promise<number> {
  let pid: number | undefined;
  const settled = await untilTrue(async () => {
    // A stale file may say "ready" for a dead server, so state and live process must come from one reading.
    const started = await runningPostmaster(cluster.clusterDir);
    if (started?.ready && started.port === port) {
      pid = started.pid;
      return true;
    }
    return server.hasExited();
  }, timeoutMs);
  if (pid === undefined) {
    const reason = settled ? 'ended at once' : `was not ready within ${timeoutMs} ms`;
    throw new EmbeddedPostgresError(
      `PostgreSQL on 127.0.0.1:${port} (${cluster.clusterDir}) ${reason}:\n${server.lastLines.join('\n')}`,
    );
  }
  await ensureDatabase(urls(port, cluster.credentials).adminUrl, cluster.credentials);
  return pid;
}

async function ensureDatabase(adminUrl: string, credentials: Credentials): Promise<void> {
  const client = new Client({ connectionString: adminUrl });
  await client.connect();
  try {
    // A standby has what its primary has, and takes no writes.
    const { rows } = await client.query<{ standby: boolean }>('SELECT pg_is_in_recovery() AS standby');
    if (rows[0]?.standby === true) return;
    const role = await client.query('SELECT 1 FROM pg_roles WHERE rolname = $1', [APP_ROLE]);
    const verb = role.rowCount ? 'ALTER' : 'CREATE';
    await client.query(
      `${verb} ROLE ${escapeIdentifier(APP_ROLE)} LOGIN PASSWORD ${escapeLiteral(credentials.appPassword)}`,
    );
    const database = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
    if (!database.rowCount) {
      await client.query(`CREATE DATABASE ${escapeIdentifier(DATABASE)} OWNER ${escapeIdentifier(APP_ROLE)}`);
    }
  } finally {
    await client.end();
  }
}

function running(
  launched: Launched,
  cluster: Cluster,
  temporary: string | undefined,
  lock: StarterLock,
): EmbeddedPostgres {
  const { server, port, pid } = launched;
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    if (!server.hasExited()) {
      server.release();
      await endServer(pid, cluster.clusterDir, STOP_TIMEOUT_MS);
      await server.exited;
    }
    await lock.release();
    if (temporary) {
      await rm(temporary, { recursive: true, force: true });
    }
  };
  return {
    ...urls(port, cluster.credentials),
    port,
    pid,
    clusterDir: cluster.clusterDir,
    exited: server.exited,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

function urls(port: number, credentials: Credentials): { url: string; adminUrl: string } {
  const at = `127.0.0.1:${port}`;
  return {
    url: `postgresql://${APP_ROLE}:${credentials.appPassword}@${at}/${DATABASE}`,
    adminUrl: `postgresql://${ADMIN_ROLE}:${credentials.adminPassword}@${at}/postgres`,
  };
}

async function makeDataDir(folder: string | undefined, identity: RunIdentity | undefined): Promise<string> {
  if (!folder) {
    throw new EmbeddedPostgresError('Neither a data folder nor `ephemeral: true` was given.');
  }
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // The server's user must pass through to the cluster inside; nothing else in here is readable for others.
    await chmod(folder, identity ? 0o711 : 0o700);
    return await realpath(folder);
  } catch (cause) {
    throw new EmbeddedPostgresError(
      `The data folder ${folder} cannot be made or used by this user. Choose another one.`,
      { cause },
    );
  }
}

async function makeTemporaryDataDir(identity: RunIdentity | undefined): Promise<string> {
  let parent = os.tmpdir();
  if (identity && !(await canEnter(parent, identity))) {
    parent = '/tmp';
  }
  const folder = await mkdtemp(path.join(parent, 'codedock-pgdata-'));
  if (identity) {
    // The owner may remove the folder, also after the starter was killed.
    await chown(folder, identity.uid, identity.gid);
  }
  return realpath(folder);
}
