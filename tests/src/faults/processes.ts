import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * The processes that a system has started, directly or not, and that still live: those with its temporary folder in
 * their environment, wherever they hang in the process tree. By the program's file, sorted.
 */
export function processesOf(temporaryFolder: string): string[] {
  return livingWith(temporaryFolder)
    .map(({ name }) => name)
    .sort();
}

/** Ids of the living processes in whose environment the text stands. */
export function pidsOf(text: string): number[] {
  return livingWith(text).map(({ pid }) => pid);
}

function livingWith(text: string): { readonly pid: number; readonly name: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        if (!readFileSync(`/proc/${pid}/environ`, 'latin1').includes(text)) return [];
        const [command = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        // Empty for one that has ended and was not waited for.
        return command === '' ? [] : [{ pid: Number(pid), name: nameOf(command, args) }];
      } catch {
        // It ended while it was looked at, or is somebody else's.
        return [];
      }
    });
}

function nameOf(command: string, args: readonly string[]): string {
  const program = args.find((arg) => arg.startsWith('/')) ?? command;
  return program.split(path.sep).slice(-3).join(path.sep);
}

/** What is in `now` beyond what is in `before`, each as often. */
export function beyond(before: readonly string[], now: readonly string[]): string[] {
  const left = [...before];
  return now.filter((each) => {
    const index = left.indexOf(each);
    if (index === -1) return true;
    left.splice(index, 1);
    return false;
  });
}
