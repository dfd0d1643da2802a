import { readdirSync, readFileSync } from 'node:fs';

/** Ticks per second of /proc/<pid>/stat; 100 on every Linux that Node supports. */
const TICKS_PER_SECOND = 100;

/** CPU time that all processes under this one have used so far, itself not counted, milliseconds; those alive only. */
export function cpuMsBelow(pid: number): number {
  return childrenOf(pid).reduce((sum, child) => sum + cpuMs(child) + cpuMsBelow(child), 0);
}

function childrenOf(pid: number): number[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const lists = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8'));
    return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  } catch {
    return [];
  }
}

/** CPU time a process has used so far, user and system, milliseconds. 0 where there is no /proc. */
export function cpuMs(pid: number): number {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return 0;
  }
  // The name, in parentheses, may hold anything: fields count from behind it. utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000;
}
