import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Duplex, Writable } from 'node:stream';
import { eventually, within } from './eventually.js';
import { recordExit, recordStart } from './leftovers.js';

/** What to start. */
export interface ProcessOptions {
  readonly command: string;
  readonly args?: readonly string[];
  /** Added to PATH, HOME, TMPDIR and LANG; nothing else of the test's own environment is passed on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /**
   * When the process counts as started: a pattern in its output, or an address that answers 2xx.
   * Without it: at once.
   */
  readonly ready?: RegExp | string;
  /** Milliseconds until `ready` must hold. Default 20,000. */
  readonly readyTimeoutMs?: number;
  /** Shown in messages. Default: the command. */
  readonly name?: string;
  /** `pipe` gives `stdin`; default: an empty input. */
  readonly stdin?: 'pipe';
  /** A process group and session of its own. */
  readonly detached?: boolean;
}

/** How a process ended. */
export interface ExitStatus {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A real child process with captured output. */
export interface TestProcess {
  readonly pid: number;
  readonly name: string;
  /** Present when started with `stdin: 'pipe'`. */
  readonly stdin: Writable | undefined;
  /** Everything written so far, in order of arrival. */
  output(): string;
  stdout(): string;
  stderr(): string;
  /** The match of `pattern` in the output, as soon as there is one. Default 10,000 ms. */
  waitForOutput(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>;
  readonly exited: Promise<ExitStatus>;
  hasExited(): boolean;
  /** Sends a signal and returns. */
  signal(signal: NodeJS.Signals): void;
  /** kill -9, awaited. */
  kill(): Promise<ExitStatus>;
  /** SIGTERM, awaited; after `timeoutMs` (default 15,000) kill -9 and an error. */
  stop(timeoutMs?: number): Promise<ExitStatus>;
}

// The started program replaces the shell, so its pid is the child's. A guard, child of nobody, ends it when the test
// run dies without cleaning up: its pipe then closes without a line. What ends the run's whole group must not end it.
const GUARD =
  '( ( trap "" HUP INT TERM; read -r _ <&3 || kill -KILL $$ ) >/dev/null 2>&1 </dev/null & ) ; exec 3<&- ; exec "$@"';

/**
 * Starts a real process and waits until it is ready.
 * @throws when it ends or stays unready; the message carries its output.
 */
export async function startProcess(options: ProcessOptions): Promise<TestProcess> {
  const name = options.name ?? path.basename(options.command);
  const child = spawn('/bin/sh', ['-c', GUARD, 'sh', options.command, ...(options.args ?? [])], {
    cwd: options.cwd,
    env: { ...inheritedEnvironment(), ...options.env },
    stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe', 'pipe'],
    detached: options.detached === true,
  });
  const running = observe(child, name);
  if (options.ready !== undefined) {
    try {
      await untilReady(running, options.ready, options.readyTimeoutMs ?? 20_000);
    } catch (cause) {
      await running.kill();
      throw new Error(`${name} did not become ready: ${(cause as Error).message}\n${running.output()}`, { cause });
    }
  }
  return running;
}

/** Command and arguments that run a TypeScript file of this repository without a build. */
export function nodeTypeScript(file: string, args: readonly string[] = []): { command: string; args: string[] } {
  const root = repositoryRoot();
  return {
    command: process.execPath,
    args: ['-r', path.join(root, 'scripts/register-typescript.cjs'), path.resolve(root, file), ...args],
  };
}

/** The folder of the checkout. */
export function repositoryRoot(): string {
  return path.resolve(__dirname, '../../../..');
}

function inheritedEnvironment(): Record<string, string> {
  const inherited: Record<string, string> = {};
  for (const name of ['PATH', 'HOME', 'TMPDIR', 'LANG']) {
    const value = process.env[name];
    if (value !== undefined) {
      inherited[name] = value;
    }
  }
  return inherited;
}

function observe(child: ChildProcess, name: string): TestProcess {
  const { pid } = child;
  if (pid === undefined) {
    throw new Error(`${name} could not be started.`);
  }
  recordStart(pid, name);
  const chunks = { all: '', stdout: '', stderr: '' };
  for (const source of ['stdout', 'stderr'] as const) {
    child[source]?.setEncoding('utf8').on('data', (text: string) => {
      chunks.all += text;
      chunks[source] += text;
    });
  }
  const guard = child.stdio[3] as Duplex;
  guard.on('error', () => undefined);
  child.stdin?.on('error', () => undefined);
  let status: ExitStatus | undefined;
  const exited = once(child, 'exit').then(async ([code, signal]) => {
    status = { code, signal } as ExitStatus;
    recordExit(pid);
    // A line, unlike the end of the pipe, sends the guard home without a signal to a pid that is free again.
    guard.end('\n');
    return status;
  });
  const signal = (which: NodeJS.Signals) => {
    if (!status) {
      child.kill(which);
    }
  };
  const kill = async () => {
    signal('SIGKILL');
    return exited;
  };
  return {
    pid,
    name,
    stdin: child.stdin ?? undefined,
    output: () => chunks.all,
    stdout: () => chunks.stdout,
    stderr: () => chunks.stderr,
    waitForOutput: (pattern, timeoutMs = 30_000) =>
      eventually(
        () => {
          const match = pattern.exec(chunks.all);
          if (!match) {
            throw new Error(`not in its output:\n${chunks.all}`);
          }
          return match;
        },
        { timeoutMs, what: `${name} to print ${pattern}` },
      ),
    exited,
    hasExited: () => status !== undefined,
    signal,
    kill,
    stop: async (timeoutMs = 30_000) => {
      signal('SIGTERM');
      try {
        return await within(exited, timeoutMs, `${name} (pid ${pid}) to end after SIGTERM`);
      } catch (error) {
        await kill();
        (error as Error).message += `\n${chunks.all}`;
        throw error;
      }
    },
  };
}

async function untilReady(running: TestProcess, ready: RegExp | string, timeoutMs: number): Promise<void> {
  const look = async (): Promise<boolean> => {
    if (typeof ready !== 'string') {
      return ready.test(running.output());
    }
    const response = await fetch(ready, { signal: AbortSignal.timeout(2_000), headers: { connection: 'close' } });
    await response.arrayBuffer();
    return response.ok;
  };
  let ended = false;
  await eventually(
    async () => {
      // What the process said before it ended may still hold the pattern.
      if (running.hasExited()) {
        ended = true;
        return true;
      }
      return look();
    },
    { timeoutMs, what: `${running.name} to be ready (${ready})` },
  );
  if (ended && !(typeof ready !== 'string' && ready.test(running.output()))) {
    const { code, signal } = await running.exited;
    throw new Error(`it ended with ${signal ?? `code ${code}`}`);
  }
}
