import { descendantsOf, markOf, processIds } from './process-table.js';

const mostRounds = 50;
const pauseMs = 10;

/** SIGKILL to a whole process group; a group that is gone is fine. */
export function killGroup(group: number): void {
  kill(-group);
}

/** SIGKILL to a group and to everything its leader has started, whatever group or session that has moved to. */
export async function killTree(leader: number): Promise<void> {
  // Looked up first: once the leader is dead, nothing tells whose children they were.
  const tree = await descendantsOf([leader]);
  killGroup(leader);
  for (const pid of tree) kill(pid);
}

/** SIGKILL to every process that carries a mark, and to what those have started, until none is left. */
export async function killMarked(mark: string): Promise<void> {
  for (let round = 0; round < mostRounds; round++) {
    const marked = await markedWith(mark);
    if (marked.length === 0) return;
    for (const pid of [...marked, ...(await descendantsOf(marked))]) kill(pid);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

async function markedWith(mark: string): Promise<number[]> {
  const pids = await processIds();
  const marks = await Promise.all(pids.map(markOf));
  return pids.filter((_, at) => marks[at] === mark);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
