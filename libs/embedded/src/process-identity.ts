import { execFile } from 'node:child_process';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * A string that is the same for the whole life of process `pid` and different for any later process with that pid.
 * `undefined` when no such process runs (a zombie does not run).
 */
export async function processIdentity(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
    if (stat === undefined) {
      return undefined;
    }
    // The command name may contain spaces and brackets, so fields are counted from its closing bracket.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') {
      return undefined;
    }
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
    return `${boot.trim()}:${fields[19]}`;
  }
  if (process.platform === 'win32') {
    return isAlive(pid) ? `win32:${pid}` : undefined;
  }
  const started = await run('ps', ['-p', String(pid), '-o', 'lstart=']).catch(() => undefined);
  return started?.stdout.trim() || undefined;
}

/**
 * Whether `pid` is a PostgreSQL process of the cluster at `clusterDir` (a real path).
 * A process that merely got the pid of a dead server is not.
 */
export async function isPostgresOf(pid: number, clusterDir: string): Promise<boolean> {
  if ((await processIdentity(pid)) === undefined) {
    return false;
  }
  if (process.platform === 'linux') {
    const [cwd, name] = await Promise.all([
      readlink(`/proc/${pid}/cwd`).catch(() => ''),
      readFile(`/proc/${pid}/comm`, 'utf8').catch(() => ''),
    ]);
    return cwd === clusterDir && name.trim() === 'postgres';
  }
  if (process.platform === 'win32') {
    return false;
  }
  const command = await run('ps', ['-p', String(pid), '-o', 'command=']).catch(() => undefined);
  return command?.stdout.includes('postgres') === true && command.stdout.includes(clusterDir);
}

/** Pids of every PostgreSQL process that works in `clusterDir`, server and backends. Linux only; empty elsewhere. */
export async function postgresProcessesOf(clusterDir: string): Promise<number[]> {
  if (process.platform !== 'linux') {
    return [];
  }
  const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry)).map(Number);
  const owned = await Promise.all(pids.map((pid) => isPostgresOf(pid, clusterDir)));
  return pids.filter((_, index) => owned[index]);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
