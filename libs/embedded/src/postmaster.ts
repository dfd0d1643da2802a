import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { EmbeddedPostgresError } from './errors.js';
import { isPostgresOf, postgresProcessesOf, processIdentity } from './process-identity.js';
import { untilTrue } from './until.js';

/** What `postmaster.pid` of a cluster says. */
export interface PostmasterFile {
  readonly pid: number;
  readonly port: number;
  /** It takes connections, a standby those that only read. */
  readonly ready: boolean;
}

const READY: ReadonlySet<string> = new Set(['ready', 'standby']);

/** Reads `postmaster.pid`; absent when there is none or it is not complete yet. */
export async function readPostmasterFile(clusterDir: string): Promise<PostmasterFile | undefined> {
  const text = await readFile(postmasterPath(clusterDir), 'utf8').catch(() => '');
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) {
    return undefined;
  }
  return { pid, port: Number(lines[3]), ready: READY.has(lines[7]?.trim() ?? '') };
}

/** The running server of `clusterDir` (a real path), verified by its process; absent when none runs. */
export async function runningPostmaster(clusterDir: string): Promise<PostmasterFile | undefined> {
  const file = await readPostmasterFile(clusterDir);
  return file && (await isPostgresOf(file.pid, clusterDir)) ? file : undefined;
}

/**
 * Ends what an earlier starter left of this cluster: a server that still runs (fast shutdown, then immediate
 * shutdown after `timeoutMs`) and backends whose server died. Only processes that work in `clusterDir` are signalled;
 * a process that got a dead server's pid is left alone and the stale file is removed.
 */
export async function endLeftovers(clusterDir: string, timeoutMs: number): Promise<void> {
  const server = await runningPostmaster(clusterDir);
  if (server) {
    await endServer(server.pid, clusterDir, timeoutMs);
  }
  const orphans = await postgresProcessesOf(clusterDir);
  for (const pid of orphans) {
    await signalVerified(pid, clusterDir, 'SIGTERM');
  }
  const gone = await untilTrue(async () => (await postgresProcessesOf(clusterDir)).length === 0, timeoutMs);
  if (!gone) {
    throw new EmbeddedPostgresError(
      `PostgreSQL processes of ${clusterDir} do not end: ${(await postgresProcessesOf(clusterDir)).join(', ')}. ` +
        'End them by hand and start again.',
    );
  }
  const stale = await readPostmasterFile(clusterDir);
  // PostgreSQL itself clears the file of a dead pid (and checks shared memory first). It refuses to start only when
  // the pid belongs to a live process, which is a foreign one here.
  if (stale && (await processIdentity(stale.pid)) !== undefined) {
    await rm(postmasterPath(clusterDir), { force: true });
  }
}

/** Fast shutdown of the verified server `pid`; immediate shutdown when it takes longer than `timeoutMs`. */
export async function endServer(pid: number, clusterDir: string, timeoutMs: number): Promise<void> {
  const ended = async () => !(await isPostgresOf(pid, clusterDir));
  await signalVerified(pid, clusterDir, 'SIGINT');
  if (await untilTrue(ended, timeoutMs)) {
    return;
  }
  await signalVerified(pid, clusterDir, 'SIGQUIT');
  if (!(await untilTrue(ended, timeoutMs))) {
    throw new EmbeddedPostgresError(`PostgreSQL (pid ${pid}) of ${clusterDir} does not end. End it by hand.`);
  }
}

async function signalVerified(pid: number, clusterDir: string, signal: NodeJS.Signals) {
  if (!(await isPostgresOf(pid, clusterDir))) {
    return;
  }
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') {
      throw error;
    }
  }
}

function postmasterPath(clusterDir: string): string {
  return path.join(clusterDir, 'postmaster.pid');
}
