import { execFile } from 'node:child_process';
import { open, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from '@codedock/testkit';

const run = promisify(execFile);
const BLOCK = Buffer.alloc(64 * 1_024, 1);

/** A file system that is soon full. */
export interface SmallDisk {
  readonly path: string;
  /** Takes all the space there is. May be called again: what was freed meanwhile is taken too. */
  fill(): Promise<void>;
  /** Gives the space back that was taken. */
  free(): Promise<void>;
  remove(): Promise<void>;
}

/** Mounts one of so many MiB, in memory; or says why it cannot, which is an error where `REQUIRE_MOUNTS` is 1. */
export async function smallDisk(mebibytes: number): Promise<SmallDisk | { readonly missing: string }> {
  if (process.getuid?.() !== 0) return missing('only root may mount a file system');
  const folder = await temporaryFolder('codedock-disk-');
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=0755`, 'codedock-faults', folder.path]);
  } catch (error) {
    await folder.remove();
    return missing(`no file system can be mounted here: ${String((error as { stderr?: string }).stderr).trim()}`);
  }
  const ballast = path.join(folder.path, 'ballast');
  return {
    path: folder.path,
    fill: async () => {
      const file = await open(ballast, 'a');
      try {
        for (;;) await file.write(BLOCK);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        await file.close();
      }
    },
    free: () => rm(ballast, { force: true }),
    remove: async () => {
      await run('umount', [folder.path]);
      await folder.remove();
    },
  };
}

function missing(why: string): { readonly missing: string } {
  if (process.env['REQUIRE_MOUNTS'] === '1') throw new Error(why);
  return { missing: why };
}
