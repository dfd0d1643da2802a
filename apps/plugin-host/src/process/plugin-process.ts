import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { type Guardian, killGroup } from './guardian.js';
import { PluginLog } from './plugin-log.js';

const maxHandshakeBytes = 64 * 1024;
const logBytesPerSecond = 64 * 1024;
const drainGraceMs = 200;

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
}

/** How a process ended, in words. */
export function describeExit(exit: Exit): string {
  return exit.signal === null ? `exit code ${exit.code}` : `signal ${exit.signal}`;
}

/**
 * One plugin process in a process group of its own. When its leader ends, the rest of the group is killed, so no
 * grandchild outlives it or keeps its sockets open.
 */
export class PluginProcess {
  /** Resolves when the leader has ended and its last output was read. */
  readonly exited: Promise<Exit>;
  private readonly output: PluginLog;
  private readonly firstLine: Promise<string | undefined>;

  private constructor(
    private readonly child: ChildProcess,
    /** Process id of the leader and number of the group. */
    readonly pid: number,
    guardian: Guardian,
    log: Logger,
  ) {
    guardian.watch(pid);
    this.output = new PluginLog(log, logBytesPerSecond);
    child.stderr?.on('data', (chunk: Buffer) => this.output.write(chunk));
    this.firstLine = readFirstLine(child);
    this.exited = new Promise<Exit>((resolve) => {
      child.once('exit', (code, signal) => {
        this.killGroup();
        guardian.release(pid);
        const finish = () => {
          clearTimeout(grace);
          this.output.end();
          child.stdout?.destroy();
          child.stderr?.destroy();
          resolve({ code, signal });
        };
        const grace = setTimeout(finish, drainGraceMs);
        child.once('close', finish);
      });
    });
  }

  /** Starts a process. @throws AppError `plugin_refused` saying why the system would not run it. */
  static async start(spec: ProcessSpec, guardian: Guardian, log: Logger): Promise<PluginProcess> {
    const [program, ...words] = spec.command;
    const child = spawn(program, words, {
      cwd: spec.folder,
      env: { ...spec.environment },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    if (child.pid === undefined) {
      const [error] = (await once(child, 'error')) as [NodeJS.ErrnoException];
      throw new AppError('plugin_refused', describeSpawnError(program, error.code));
    }
    child.on('error', (error) => log.warn({ err: error }, 'a plugin process could not be signalled'));
    return new PluginProcess(child, child.pid, guardian, log);
  }

  /** Whether the leader has not ended yet. */
  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The first line on stdout; undefined when stdout ended before there was one. */
  handshakeLine(): Promise<string | undefined> {
    return this.firstLine;
  }

  /** Takes output that did not come through stderr. */
  writeOutput(chunk: Uint8Array): void {
    this.output.write(chunk);
  }

  /** The last lines it logged, for messages; empty when it logged nothing. */
  describeOutput(): string {
    const lines = this.output.tail();
    return lines.length === 0 ? '' : `; last lines on stderr: ${lines.map((line) => JSON.stringify(line)).join(', ')}`;
  }

  /** SIGKILL to the leader and everything it started that is still in its group. */
  killGroup(): void {
    killGroup(this.pid);
  }
}

function readFirstLine(child: ChildProcess): Promise<string | undefined> {
  return new Promise((resolve) => {
    const { stdout } = child;
    if (stdout === null) return resolve(undefined);
    let text = Buffer.alloc(0);
    const finish = (line: string | undefined) => {
      stdout.off('data', onBytes);
      stdout.off('end', onEnd);
      stdout.resume();
      resolve(line);
    };
    const onBytes = (chunk: Buffer) => {
      text = Buffer.concat([text, chunk]);
      const end = text.indexOf(10);
      if (end >= 0) finish(text.subarray(0, end).toString('utf8'));
      else if (text.length > maxHandshakeBytes) finish(text.subarray(0, maxHandshakeBytes).toString('utf8'));
    };
    const onEnd = () => finish(text.length === 0 ? undefined : text.toString('utf8'));
    stdout.on('data', onBytes);
    stdout.once('end', onEnd);
    stdout.once('error', onEnd);
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
