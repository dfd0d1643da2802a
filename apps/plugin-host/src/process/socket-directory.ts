import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const prefix = 'cdph-';
const ownerFile = '.owner';

/** A private folder (0700) for one plugin process: its sockets, the host's brokered sockets, its temporary files. */
export async function createSocketDirectory(root: string = tmpdir()): Promise<string> {
  const directory = await mkdtemp(join(root, prefix));
  await writeFile(join(directory, ownerFile), ownerOf(process.pid) ?? '');
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
