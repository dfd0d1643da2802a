import { spawn } from 'node:child_process';
import { environment } from '../config.js';

/** How a program that was run ended. */
export interface Ended {
  /** 128 and the like for a signal. */
  readonly code: number;
  /** stdout and stderr as they came. */
  readonly output: string;
}

/** Where and how a program runs. */
export interface RunOptions {
  readonly folder: string;
  /** Variables beside those of this process. */
  readonly variables?: Readonly<Record<string, string>>;
}

const signalled = 128;

/** Runs a program to its end. @throws Error when it cannot be started, with the remedy where it is not installed. */
export function runProgram(program: string, args: readonly string[], options: RunOptions): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const { folder, variables } = options;
    const child = spawn(program, args, {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(variables === undefined ? {} : { env: { ...environment, ...variables } }),
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    child.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'ENOENT' ? 'it is not installed, or not on PATH' : error.message;
      reject(new Error(`${program} could not be started: ${why}.`));
    });
    child.once('close', (code, signal) => resolve({ code: signal === null ? (code ?? 1) : signalled, output }));
  });
}
