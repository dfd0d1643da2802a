import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { EmbeddedPostgresError } from './errors.js';
import { processIdentity } from './process-identity.js';

interface Starter {
  readonly pid: number;
  readonly identity: string;
}

/** Held by the one process that starts and stops the server of a data folder. */
export interface StarterLock {
  release(): Promise<void>;
}

/**
 * Claims `dataDir` for this process. A claim of a process that no longer runs is taken over.
 * @throws EmbeddedPostgresError when another running process holds it.
 */
export async function claimStarterLock(dataDir: string): Promise<StarterLock> {
  const file = path.join(dataDir, 'starter.lock');
  const own = JSON.stringify({
    pid: process.pid,
    identity: (await processIdentity(process.pid)) ?? '',
  } satisfies Starter);
  const draft = `${file}.${process.pid}.${Date.now()}`;
  await writeFile(draft, own, { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      // link() is atomic and refuses an existing name, also on shared file systems where O_EXCL is not reliable.
      const claimed = await link(draft, file).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'EEXIST') {
            return false;
          }
          throw error;
        },
      );
      if (claimed) {
        return { release: () => release(file, own) };
      }
      await removeStale(file, dataDir);
    }
  } finally {
    await rm(draft, { force: true });
  }
  throw new EmbeddedPostgresError(`Several processes start the embedded PostgreSQL of ${dataDir} at once. Start one.`);
}

async function removeStale(file: string, dataDir: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) {
    return;
  }
  const holder = parseStarter(text);
  if (holder && (await processIdentity(holder.pid)) === holder.identity) {
    throw new EmbeddedPostgresError(
      `Process ${holder.pid} already runs the embedded PostgreSQL of ${dataDir}. ` +
        'Stop it first, or use another data folder.',
    );
  }
  const aside = `${file}.stale.${process.pid}`;
  const moved = await rename(file, aside).then(
    () => true,
    () => false,
  );
  if (!moved) {
    return;
  }
  // Between reading and moving, a new holder may have claimed: it gets its lock back.
  if ((await readFile(aside, 'utf8')) !== text) {
    await link(aside, file).catch(() => undefined);
  }
  await rm(aside, { force: true });
}

function parseStarter(text: string): Starter | undefined {
  try {
    const value = JSON.parse(text) as Partial<Starter>;
    return typeof value.pid === 'number' && typeof value.identity === 'string'
      ? { pid: value.pid, identity: value.identity }
      : undefined;
  } catch {
    return undefined;
  }
}

async function release(file: string, own: string): Promise<void> {
  if ((await readFile(file, 'utf8').catch(() => undefined)) === own) {
    await rm(file, { force: true });
  }
}
