import { randomBytes } from 'node:crypto';
import { readlinkSync } from 'node:fs';
import { startOf } from './process-table.js';

const pattern = /^(\d+)-(\d+)-(\d+)-[0-9a-f]+\./;

/** Which host a process was started by, as its mark says. */
export interface MarkedHost {
  readonly pid: number;
  /** Start of the host, in ticks since the system's own. */
  readonly startedAt: string;
  /** Number of the pid namespace in which that is its pid. */
  readonly namespace: string;
}

/**
 * What the marks of this host's plugins begin with: unique, and where there is /proc it says which process the host is,
 * so that others can tell whether it still lives.
 */
export function hostMark(): string {
  const unique = randomBytes(12).toString('hex');
  const startedAt = startOf(process.pid);
  const namespace = ownNamespace();
  return startedAt === undefined || namespace === undefined
    ? unique
    : `${process.pid}-${startedAt}-${namespace}-${unique}`;
}

/** The host in a mark; undefined for one that names none. */
export function hostOf(mark: string): MarkedHost | undefined {
  const [, pid = '', startedAt = '', namespace = ''] = pattern.exec(mark) ?? [];
  return pid === '' ? undefined : { pid: Number(pid), startedAt, namespace };
}

/** Number of the pid namespace this process sees; undefined where that cannot be told. */
export function ownNamespace(): string | undefined {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0];
  } catch {
    return undefined;
  }
}
