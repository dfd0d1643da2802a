import type { PluginLimits } from '../discovery/manifest-file.js';
import { markOf, processIds, residentMb } from './process-table.js';

const everyMs = 500;

/** A plugin process with limits that are looked after from outside. */
export interface LimitedProcess {
  readonly mark: string;
  readonly limits: PluginLimits;
  /** Called once, with what was exceeded. */
  onExceeded(reason: string): void;
}

/**
 * Looks twice a second at the processes of plugins that have limits of memory or number: all that carry the plugin's
 * mark count, resident memory is added up. Where there is no /proc it sees nothing.
 */
export class LimitWatch {
  private readonly watched = new Set<LimitedProcess>();
  /** Marks by process id: a process keeps its own for life. */
  private readonly marks = new Map<number, string>();
  private timer: NodeJS.Timeout | undefined;

  /** Watches until the answered function is called, or a limit was exceeded. */
  watch(process: LimitedProcess): () => void {
    const { memoryMb, processes } = process.limits;
    if (memoryMb === undefined && processes === undefined) return () => undefined;
    this.watched.add(process);
    this.schedule();
    return () => this.watched.delete(process);
  }

  private schedule(): void {
    if (this.timer !== undefined || this.watched.size === 0) return;
    this.timer = setTimeout(() => {
      this.look()
        .catch(() => undefined)
        .finally(() => {
          this.timer = undefined;
          this.schedule();
        });
    }, everyMs).unref();
  }

  private async look(): Promise<void> {
    const byMark = await this.processesByMark();
    for (const process of [...this.watched]) {
      const reason = await excess(process.limits, byMark.get(process.mark) ?? []);
      if (reason === undefined || !this.watched.delete(process)) continue;
      process.onExceeded(reason);
    }
  }

  private async processesByMark(): Promise<Map<string, number[]>> {
    const pids = await processIds();
    const alive = new Set(pids);
    for (const pid of this.marks.keys()) if (!alive.has(pid)) this.marks.delete(pid);
    await Promise.all(
      pids.map(async (pid) => {
        if (this.marks.has(pid)) return;
        const mark = await markOf(pid);
        if (mark !== undefined) this.marks.set(pid, mark);
      }),
    );
    const byMark = new Map<string, number[]>();
    for (const [pid, mark] of this.marks) byMark.set(mark, [...(byMark.get(mark) ?? []), pid]);
    return byMark;
  }
}

async function excess({ memoryMb, processes }: PluginLimits, pids: readonly number[]): Promise<string | undefined> {
  if (processes !== undefined && pids.length > processes)
    return `it had ${pids.length} processes, "limits.processes" is ${processes}`;
  if (memoryMb === undefined) return undefined;
  const sizes = await Promise.all(pids.map(residentMb));
  const used = Math.ceil(sizes.reduce((sum, size) => sum + size, 0));
  return used > memoryMb ? `it used ${used} MiB of memory, "limits.memoryMb" is ${memoryMb}` : undefined;
}
