import { stat } from 'node:fs/promises';
import path from 'node:path';

/** The user and group that own the cluster's files and run its processes. */
export interface RunIdentity {
  readonly uid: number;
  readonly gid: number;
}

const NOBODY: RunIdentity = { uid: 65534, gid: 65534 };

/**
 * PostgreSQL refuses to run as root; there it runs as uid and gid 65534.
 * Absent for every other user: it then runs as that user.
 */
export function unprivilegedIdentity(): RunIdentity | undefined {
  return process.getuid?.() === 0 ? NOBODY : undefined;
}

/**
 * Whether `identity` may enter `folder` and each folder above it, by mode bits (access lists are not read).
 * A missing folder counts as not enterable.
 */
export async function canEnter(folder: string, identity: RunIdentity): Promise<boolean> {
  let current = path.resolve(folder);
  for (;;) {
    const stats = await stat(current).catch(() => undefined);
    if (!stats?.isDirectory()) {
      return false;
    }
    const bit = stats.uid === identity.uid ? 0o100 : stats.gid === identity.gid ? 0o010 : 0o001;
    if ((stats.mode & bit) === 0) {
      return false;
    }
    const parent = path.dirname(current);
    if (parent === current) {
      return true;
    }
    current = parent;
  }
}
