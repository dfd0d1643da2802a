import { readFileSync } from 'node:fs';
import type { TestProcess } from '@codedock/testkit';

const SAMPLED_MS = 1_000;

/** Largest resident memory of processes while they are watched. */
export interface MemoryWatch {
  /** MiB by the process's name. */
  stop(): ReadonlyMap<string, number>;
}

/** Looks once a second at every process that `processes` answers then. */
export function watchMemory(processes: () => readonly TestProcess[]): MemoryWatch {
  const most = new Map<string, number>();
  const look = () => {
    for (const each of processes()) most.set(each.name, Math.max(most.get(each.name) ?? 0, residentMib(each.pid)));
  };
  const timer = setInterval(look, SAMPLED_MS).unref();
  return {
    stop() {
      clearInterval(timer);
      look();
      return most;
    },
  };
}

/** 0 for a process that has ended. */
function residentMib(pid: number): number {
  try {
    return Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024);
  } catch {
    return 0;
  }
}
