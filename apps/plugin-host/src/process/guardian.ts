import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Logger } from '@codedock/platform';
import { hostMark } from './host-mark.js';
import { killGroup, killMarked } from './kill-processes.js';
import { LimitWatch } from './limit-watch.js';
import { LineSplitter } from './line-splitter.js';
import { markVariable } from './process-table.js';

/**
 * Reads lines: "+ <group>" and "- <group>" say which process groups there are, "! <mark>" asks for the end of every
 * process with that mark, which is answered by a line with the mark. When its input ends, which happens whenever the
 * host dies by whatever signal, it kills the groups that are left and every process with a mark of the host. What is
 * killed is killed with all it has started, again and again until none is left. Its own group, so that nothing sent to
 * the host's group reaches it. Without /proc or grep only the groups are killed.
 */
const script = `
trap '' HUP INT TERM PIPE
host=$1
groups=' '
sweep() {
  pattern="^${markVariable}=$1"
  led=$2
  doomed=$2
  round=0
  while [ $round -lt 40 ]; do
    for file in $(grep -lsz "$pattern" /proc/[0-9]*/environ 2>/dev/null); do
      pid=\${file#/proc/}
      doomed="$doomed\${pid%/environ} "
    done
    [ "$doomed" = ' ' ] && return
    grown=1
    while [ $grown = 1 ]; do
      grown=0
      for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        pid=\${line%% *}
        set -- \${line##*) }
        case $doomed in *" $pid "*) continue ;; esac
        case $doomed in *" $2 "*) doomed="$doomed$pid "; grown=1 ;; esac
      done
    done
    for group in $led; do kill -s KILL -- "-$group" 2>/dev/null; done
    for pid in $doomed; do kill -s KILL "$pid" 2>/dev/null; done
    led=' '
    doomed=' '
    round=$((round + 1))
    sleep 0.02 2>/dev/null
  done
}
while read -r change what; do
  case $change in
    +) groups="$groups$what " ;;
    -)
      rest=' '
      for known in $groups; do [ "$known" = "$what" ] || rest="$rest$known "; done
      groups=$rest
      ;;
    '!')
      sweep "$what$" ' '
      echo "$what"
      ;;
  esac
done
sweep "$host" "$groups"
`;

const respawnDelayMs = 500;
const longestMark = 256;
/** Milliseconds after which a guardian that does not answer is not waited for. */
const sweepTimeoutMs = 3_000;

/** Keeps plugin processes from outliving this host: one small process that holds a pipe to it. */
export class Guardian {
  readonly limits = new LimitWatch();
  private readonly mark = hostMark();
  private instances = 0;
  private child: ChildProcess | undefined;
  private respawn: NodeJS.Timeout | undefined;
  private closed = false;
  private readonly groups = new Set<number>();
  private readonly sweeping = new Map<string, () => void>();
  private readonly killAll = () => {
    for (const group of this.groups) killGroup(group);
  };

  constructor(private readonly log: Logger) {
    process.on('exit', this.killAll);
    this.start();
  }

  /** The mark of the next process: unique, and recognisable as this host's. */
  nextMark(): string {
    return `${this.mark}.${++this.instances}`;
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

  /**
   * Kills every process with the mark. The guardian looks for them: reading all of /proc would hold up the calls of other
   * plugins here. Resolves when none is left.
   */
  async sweep(mark: string): Promise<void> {
    const { child } = this;
    if (child === undefined || this.closed) return killMarked(mark);
    const swept = new Promise<void>((resolve) => this.sweeping.set(mark, resolve));
    const late = setTimeout(() => void killMarked(mark).finally(() => this.swept(mark)), sweepTimeoutMs);
    child.stdin?.write(`! ${mark}\n`);
    await swept;
    clearTimeout(late);
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
    const child = spawn('/bin/sh', ['-c', script, 'guardian', this.mark], {
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    });
    this.child = child;
    child.stdin?.on('error', () => undefined);
    child.unref();
    const { stdout } = child;
    if (stdout instanceof Socket) stdout.unref();
    const answers = new LineSplitter((mark) => this.swept(mark), longestMark);
    stdout?.on('data', (chunk: Buffer) => answers.write(chunk));
    const onEnd = (reason: string) => {
      for (const mark of [...this.sweeping.keys()]) void killMarked(mark).finally(() => this.swept(mark));
      if (this.closed) return;
      this.child = undefined;
      this.log.error({ reason }, 'the process that ends plugins with this host is gone; starting another');
      this.respawn = setTimeout(() => this.start(), respawnDelayMs).unref();
    };
    child.once('error', (error) => onEnd(error.message));
    child.once('exit', (code, signal) => onEnd(`exit ${signal ?? code}`));
    for (const group of this.groups) child.stdin?.write(`+ ${group}\n`);
  }

  private swept(mark: string): void {
    this.sweeping.get(mark)?.();
    this.sweeping.delete(mark);
  }
}
