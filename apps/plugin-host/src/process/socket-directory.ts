import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError } from '@codedock/domain';
import { maxSocketPathBytes } from './handshake.js';

const prefix = 'cdph-';
const ownerFile = '.owner';
/** Bytes of the names below the folder: what libraries add, `p` with eight characters and `/s`, or `plugin` with digits. */
const namesBelow = '/plugin4294967295'.length;

/**
 * A private folder (0700) for one plugin process: its sockets, the host's brokered sockets, its temporary files.
 * @throws AppError `plugin_refused` where paths in it would be longer than sockets can have; the system's error where
 * nothing can be written. Nothing is left then.
 */
export async function createSocketDirectory(root: string = tmpdir()): Promise<string> {
  const longest = Buffer.byteLength(join(root, `${prefix}XXXXXX`)) + namesBelow;
  if (longest > maxSocketPathBytes) {
    // Longer paths are cut without a word: two sockets could be one.
    throw new AppError(
      'plugin_refused',
      `the folder for sockets ${root} is too long: paths of ${longest} bytes, at most ${maxSocketPathBytes} work; set TMPDIR of this host to a shorter folder`,
    );
  }
  const directory = await mkdtemp(join(root, prefix));
  try {
    await writeFile(join(directory, ownerFile), ownerOf(process.pid) ?? '');
  } catch (error) {
    // A full disk has room for a folder and none for a file; nobody sweeps a folder without an owner.
    await removeSocketDirectory(directory).catch(() => undefined);
    throw error;
  }
  return directory;
}

/** Removes a folder made by createSocketDirectory with everything in it. */
export async function removeSocketDirectory(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true, maxRetries: 3 });
}

/** Removes the folders that hosts left behind which are no longer alive. Answers how many. */
export async function sweepSocketDirectories(root: string = tmpdir()): Promise<number> {
  let removed = 0;
  for (const name of await readdir(root).catch(() => [])) {
    if (!name.startsWith(prefix)) continue;
    const owner = await readFile(join(root, name, ownerFile), 'utf8').catch(() => '');
    const [pid = ''] = owner.split(' ');
    if (!/^\d+$/.test(pid) || ownerOf(Number(pid)) === owner) continue;
    await removeSocketDirectory(join(root, name)).then(
      () => removed++,
      () => undefined,
    );
  }
  return removed;
}

/** Process id and start time, so that a reused id is not taken for the owner; undefined when there is no such process. */
function ownerOf(pid: number): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const startedAt = status.slice(status.lastIndexOf(')') + 2).split(' ')[19];
    return `${pid} ${startedAt}`;
  } catch {
    return isAlive(pid) ? `${pid}` : undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
