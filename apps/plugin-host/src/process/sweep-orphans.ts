import { hostOf, ownNamespace } from './host-mark.js';
import { killMarked } from './kill-processes.js';
import { markOf, processIds, startOf } from './process-table.js';

/**
 * Kills processes of plugins whose host is gone, and what those have started: left behind where a host and its guardian
 * were killed together. Answers how many marked ones there were. A process is known by its mark alone, and its host by
 * pid, start time and pid namespace, so that nothing of a host that lives, here or in a container, is touched. Where there
 * is no /proc it finds nothing.
 */
export async function sweepOrphans(): Promise<number> {
  const namespace = ownNamespace();
  if (namespace === undefined) return 0;
  const marks = await Promise.all((await processIds()).map(markOf));
  const orphaned = marks.filter((mark): mark is string => {
    const host = mark === undefined ? undefined : hostOf(mark);
    return host !== undefined && host.namespace === namespace && startOf(host.pid) !== host.startedAt;
  });
  await Promise.all([...new Set(orphaned)].map(killMarked));
  return orphaned.length;
}
