import { readFileSync } from 'node:fs';

/** Ticks per second of /proc on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/**
 * Microseconds of CPU the processes have used so far, threads of the pool included, in steps of 10,000; undefined where
 * the system does not say (no /proc).
 */
export function cpuMicroseconds(pids: readonly number[]): number[] | undefined {
  try {
    return pids.map((pid) => {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
      // The command's name may hold spaces, so fields are counted from the parenthesis that closes it.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / TICKS_PER_SECOND;
    });
  } catch {
    return undefined;
  }
}
