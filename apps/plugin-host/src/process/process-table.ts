import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';

/** Variable by which every process of a plugin is known, whatever group or session it has moved to. */
export const markVariable = 'CODEDOCK_PLUGIN_INSTANCE';

const digits = /^\d+$/;
const needle = Buffer.from(`${markVariable}=`);

/** Ids of all processes that can be seen; none where there is no /proc. */
export async function processIds(): Promise<number[]> {
  const names = await readdir('/proc').catch(() => []);
  return names.filter((name) => digits.test(name)).map(Number);
}

/**
 * The mark a process was started with: empty for one without, undefined where that cannot be told now (it is ending,
 * begins another program, or is no process with an environment).
 */
export async function markOf(pid: number): Promise<string | undefined> {
  const environment = await readFile(`/proc/${pid}/environ`).catch((error: NodeJS.ErrnoException) =>
    error.code === 'EACCES' ? Buffer.from('\0') : undefined,
  );
  if (environment === undefined || environment.length === 0) return undefined;
  for (let at = environment.indexOf(needle); at >= 0; at = environment.indexOf(needle, at + 1)) {
    if (at > 0 && environment[at - 1] !== 0) continue;
    const end = environment.indexOf(0, at);
    return environment.toString('utf8', at + needle.length, end < 0 ? environment.length : end);
  }
  return '';
}

/** Everything the given processes have started that still hangs together with them, not themselves. */
export async function descendantsOf(roots: readonly number[]): Promise<number[]> {
  const children = new Map<number, number[]>();
  await Promise.all(
    (await processIds()).map(async (pid) => {
      const parent = await parentOf(pid);
      if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid]);
    }),
  );
  const found = new Set<number>();
  const open = [...roots];
  for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
    for (const child of children.get(parent) ?? []) {
      if (found.has(child) || roots.includes(child)) continue;
      found.add(child);
      open.push(child);
    }
  }
  return [...found];
}

/** Whether a process runs; a zombie does not. Where there is no /proc, none does. */
export async function runs(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return /^[^ZX]/.test(status.slice(status.lastIndexOf(')') + 2));
}

/**
 * When a process was started, in ticks since the system's own start: with its id it is one process for good. Undefined for
 * one that has ended, whether somebody has taken note of that or not, and where there is no /proc.
 */
export function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** MiB resident in memory; 0 for a process that is gone. */
export async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024;
}

async function parentOf(pid: number): Promise<number | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The second field is the program's name in parentheses and may hold anything.
  const parent = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1];
  return parent === undefined || parent === '' ? undefined : Number(parent);
}
