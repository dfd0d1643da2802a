import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import type { PluginLimits } from '../discovery/manifest-file.js';
import type { Guardian } from './guardian.js';
import { killGroup, killTree } from './kill-processes.js';
import { PluginLog } from './plugin-log.js';
import { markVariable } from './process-table.js';

const maxHandshakeBytes = 64 * 1024;
/** Bytes kept of what a process prints where it must not. */
const strayBytes = 200;
const drainGraceMs = 50;
/** How programs complain when they open one of their outputs by its path. */
const openedByPath = /\/dev\/std(out|err).*No such device/;

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** How to start a process. */
export interface ProcessSpec {
  readonly command: readonly [string, ...string[]];
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** stdin and stdout carry frames; otherwise stdin is empty, and stdout is read to its first line. */
  readonly frames?: boolean;
  readonly limits: PluginLimits;
}

/** What a process wrote to its stdout although stdout belongs to the protocol. */
export interface StrayOutput {
  readonly bytes: number;
  /** The first of it, as text. */
  readonly beginning: string;
}

/** How a process ended, in words. */
export function describeExit(exit: Exit): string {
  return exit.signal === null ? `exit code ${exit.code}` : `signal ${exit.signal}`;
}

/**
 * One plugin process in a process group of its own. When its leader ends, the rest of the group is killed, and with it
 * every process that carries its mark, so no grandchild outlives it or keeps its sockets open.
 */
export class PluginProcess {
  /** Resolves when the leader has ended and its last output was read. */
  readonly exited: Promise<Exit>;
  /** Resolves when none of the processes it started is left either. */
  readonly gone: Promise<void>;
  /** Why the host has killed it, where that needs saying. */
  private killedBecause = '';
  private stray = { bytes: 0, beginning: Buffer.alloc(0) };
  private readonly output: PluginLog;
  private readonly firstLine: Promise<string | undefined>;

  private constructor(
    private readonly child: ChildProcess,
    /** Process id of the leader and number of the group. */
    readonly pid: number,
    { frames = false, limits }: ProcessSpec,
    mark: string,
    guardian: Guardian,
    log: Logger,
  ) {
    guardian.watch(pid);
    this.output = new PluginLog(log, limits.logBytesPerSecond);
    child.stderr?.on('data', (chunk: Buffer) => this.output.write(chunk));
    this.firstLine = frames
      ? Promise.resolve(undefined)
      : readFirstLine(child, (bytes) => {
          if (this.stray.bytes === 0)
            log.warn('a plugin writes to stdout after the handshake, where nobody reads; log to stderr');
          this.noteStray(bytes);
        });
    const unwatch = guardian.limits.watch({ mark, limits, onExceeded: (reason) => this.kill(reason) });
    this.exited = new Promise<Exit>((resolve) => {
      child.once('exit', (code, signal) => {
        unwatch();
        killGroup(pid);
        guardian.release(pid);
        const finish = () => {
          clearTimeout(grace);
          this.output.end();
          child.stdin?.destroy();
          child.stdout?.destroy();
          child.stderr?.destroy();
          resolve({ code, signal });
        };
        const grace = setTimeout(finish, drainGraceMs);
        child.once('close', finish);
      });
    });
    // Looked for only when calls in flight have been told: it takes longer than they are to wait.
    this.gone = this.exited.then(() => guardian.sweep(mark));
  }

  /** Starts a process. @throws AppError `plugin_refused` saying why the system would not run it. */
  static async start(spec: ProcessSpec, guardian: Guardian, log: Logger): Promise<PluginProcess> {
    const [program, ...words] = limitedCommand(spec);
    const mark = guardian.nextMark();
    const child = spawn(program, words, {
      cwd: spec.folder,
      env: { ...spec.environment, [markVariable]: mark },
      detached: true,
      stdio: [spec.frames ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    });
    if (child.pid === undefined) {
      const [error] = (await once(child, 'error')) as [NodeJS.ErrnoException];
      throw new AppError('plugin_refused', describeSpawnError(program, error.code));
    }
    child.on('error', (error) => log.warn({ err: error }, 'a plugin process could not be signalled'));
    return new PluginProcess(child, child.pid, spec, mark, guardian, log);
  }

  /** Whether the leader has not ended yet. */
  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The first line on stdout; undefined when stdout ended before there was one. */
  handshakeLine(): Promise<string | undefined> {
    return this.firstLine;
  }

  /** Its stdin and stdout, of a process that was started with `frames`. */
  streams(): { readonly stdin: Writable; readonly stdout: Readable } {
    const { stdin, stdout } = this.child;
    if (stdin === null || stdout === null)
      throw new AppError('invariant_broken', 'a plugin process was started without frames');
    return { stdin, stdout };
  }

  /** Takes note of output on stdout that is none of the protocol. */
  noteStray(bytes: Uint8Array): void {
    const { beginning } = this.stray;
    const more =
      beginning.length < strayBytes ? [beginning, bytes.subarray(0, strayBytes - beginning.length)] : [beginning];
    this.stray = { bytes: this.stray.bytes + bytes.length, beginning: Buffer.concat(more) };
  }

  /** What it wrote to stdout so far beside the protocol. */
  get strayOutput(): StrayOutput {
    return { bytes: this.stray.bytes, beginning: this.stray.beginning.toString('utf8') };
  }

  /** Takes output that did not come through stderr. */
  writeOutput(chunk: Uint8Array): void {
    this.output.writePrinted(chunk);
  }

  /** Why the host killed it, and the last lines it logged, for messages; empty when there is nothing to say. */
  describeOutput(): string {
    const lines = this.output.tail();
    const killed = this.killedBecause === '' ? '' : `; it was killed: ${this.killedBecause}`;
    if (lines.length === 0) return killed;
    const hint = lines.some((line) => openedByPath.test(line))
      ? '; its stdout and stderr are sockets, which cannot be opened by path; write to >&1 and >&2 instead of /dev/stdout and /dev/stderr'
      : '';
    return `${killed}; last lines on stderr: ${lines.map((line) => JSON.stringify(line)).join(', ')}${hint}`;
  }

  /** SIGKILL to the leader and everything it has started. `because` goes into the messages about its end. */
  kill(because = ''): void {
    if (!this.alive) return;
    if (this.killedBecause === '') this.killedBecause = because;
    void killTree(this.pid);
  }
}

/** A shell sets the limits that only the process itself can set, then becomes the program. */
function limitedCommand({ command, limits }: ProcessSpec): readonly [string, ...string[]] {
  if (limits.openFiles === undefined) return command;
  // A hard limit that is lower already stays.
  return ['/bin/sh', '-c', 'ulimit -n "$0" 2>/dev/null; exec "$@"', String(limits.openFiles), ...command];
}

/** The first line; what follows it goes to `onRest` and is kept nowhere, for as long as the process writes. */
function readFirstLine(child: ChildProcess, onRest: (bytes: Buffer) => void): Promise<string | undefined> {
  return new Promise((resolve) => {
    const { stdout } = child;
    if (stdout === null) return resolve(undefined);
    let text = Buffer.alloc(0);
    const finish = (line: string | undefined, rest = Buffer.alloc(0)) => {
      stdout.off('data', onBytes);
      stdout.off('end', onEnd);
      stdout.on('data', onRest);
      if (rest.length > 0) onRest(rest);
      resolve(line);
    };
    const onBytes = (chunk: Buffer) => {
      text = Buffer.concat([text, chunk]);
      const end = text.indexOf(10);
      if (end >= 0) finish(text.subarray(0, end).toString('utf8'), text.subarray(end + 1));
      else if (text.length > maxHandshakeBytes) finish(text.subarray(0, maxHandshakeBytes).toString('utf8'));
    };
    const onEnd = () => finish(text.length === 0 ? undefined : text.toString('utf8'));
    stdout.on('data', onBytes);
    stdout.once('end', onEnd);
    stdout.once('error', onEnd);
    // What the process has started may hold it open after its end; it is closed then.
    stdout.once('close', onEnd);
  });
}

function describeSpawnError(program: string, code: string | undefined): string {
  if (code === 'ENOENT' && isAbsolute(program) && existsSync(program)) {
    return `${program} names an interpreter in its first line that is not installed here; install it or correct the "#!" line`;
  }
  if (code === 'ENOENT')
    return `the program ${program} was not found on PATH; install it or correct "command" in plugin.json`;
  if (code === 'EACCES')
    return `${program} may not be executed by this user; check the permissions of the file and its folders`;
  return `${program} cannot be started (${code}); is it built for this machine?`;
}
