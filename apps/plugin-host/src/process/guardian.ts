import { type ChildProcess, spawn } from 'node:child_process';
import type { Logger } from '@codedock/platform';

/**
 * Reads "+ <group>" and "- <group>" lines; when its input ends, which happens whenever the host dies by whatever
 * signal, it kills the groups that are left. Its own group, so that nothing sent to the host's group reaches it.
 */
const script = `
trap '' HUP INT TERM
groups=' '
while read -r change group; do
  rest=' '
  for known in $groups; do [ "$known" = "$group" ] || rest="$rest$known "; done
  [ "$change" = + ] && rest="$rest$group "
  groups=$rest
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
`;

const respawnDelayMs = 500;

/** Keeps plugin processes from outliving this host: one small process that holds a pipe to it. */
export class Guardian {
  private child: ChildProcess | undefined;
  private respawn: NodeJS.Timeout | undefined;
  private closed = false;
  private readonly groups = new Set<number>();
  private readonly killAll = () => {
    for (const group of this.groups) killGroup(group);
  };

  constructor(private readonly log: Logger) {
    process.on('exit', this.killAll);
    this.start();
  }

  /** From now on the process group dies with the host. */
  watch(group: number): void {
    this.groups.add(group);
    this.child?.stdin?.write(`+ ${group}\n`);
  }

  /** The process group is gone; its number may be used again by others. */
  release(group: number): void {
    if (this.groups.delete(group)) this.child?.stdin?.write(`- ${group}\n`);
  }

  /** Ends the guardian; groups still watched are killed by it. */
  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.respawn);
    process.off('exit', this.killAll);
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    // Awaited, so it counts: nothing else may be left to keep this process going.
    child.ref();
    child.stdin?.end();
    await exited;
  }

  private start(): void {
    const child = spawn('/bin/sh', ['-c', script], { detached: true, stdio: ['pipe', 'ignore', 'ignore'], env: {} });
    this.child = child;
    child.stdin?.on('error', () => undefined);
    child.unref();
    const onEnd = (reason: string) => {
      if (this.closed) return;
      this.child = undefined;
      this.log.error({ reason }, 'the process that ends plugins with this host is gone; starting another');
      this.respawn = setTimeout(() => this.start(), respawnDelayMs).unref();
    };
    child.once('error', (error) => onEnd(error.message));
    child.once('exit', (code, signal) => onEnd(`exit ${signal ?? code}`));
    for (const group of this.groups) child.stdin?.write(`+ ${group}\n`);
  }
}

/** SIGKILL to a whole process group; a group that is gone is fine. */
export function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
