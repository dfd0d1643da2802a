const intervalMs = 500;
const lostGraceMs = 3_000;

/** Ends a plugin whose host is gone; a process group alone does not do that when the host is killed. */
export class ParentWatch {
  private readonly parent = process.ppid;
  private readonly poll: NodeJS.Timeout;
  private grace: NodeJS.Timeout | undefined;

  constructor(private readonly onGone: (reason: string) => void) {
    this.poll = setInterval(() => this.check(), intervalMs);
    this.poll.unref();
  }

  /**
   * The connection was lost: the parent may just have died. A plugin that is started through another program does not see
   * its host as the parent, and of no use without its connection it ends after 3 s as well.
   */
  connectionLost(): void {
    this.check();
    this.grace ??= setTimeout(() => this.onGone('the host closed its connection and did not come back'), lostGraceMs);
  }

  stop(): void {
    clearInterval(this.poll);
    clearTimeout(this.grace);
  }

  private check(): void {
    if (process.ppid !== this.parent) this.onGone('the host has ended');
  }
}
