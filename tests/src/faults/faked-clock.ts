import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';

// By path: it is loaded into the program, and never run.
const library = ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  .find((file) => existsSync(file));

/** How long a process may use a time it has read, seconds: so long does a jump take to be seen. */
const CACHE_S = 1;

/** Why no process can be given a clock of its own here; undefined when one can. */
export function fakedClockMissing(): string | undefined {
  return library === undefined ? 'no libfaketime here (Debian: apt install faketime)' : undefined;
}

/** A clock of its own for a process: of the time of day. The monotonic clock, which timers go by, stays as it is. */
export interface FakedClock {
  /** What the process is to be started with. */
  readonly env: Readonly<Record<string, string>>;
  /** From now on, or as soon as the process looks: so many seconds ahead of the machine's clock. */
  set(aheadS: number): void;
}

/** Makes a clock; its file lies in `folder`. */
export function fakedClock(folder: string, name: string, aheadS: number): FakedClock {
  const file = path.join(folder, `clock-${name}`);
  const set = (ahead: number) => writeFileSync(file, ahead < 0 ? `${ahead}s` : `+${ahead}s`);
  set(aheadS);
  return {
    env: {
      LD_PRELOAD: library ?? '',
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: String(CACHE_S),
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    set,
  };
}
