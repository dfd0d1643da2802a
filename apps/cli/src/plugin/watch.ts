import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isPluginFile } from './install.js';

const everyMs = 300;

/**
 * Resolves with the folder's fingerprint once it is another than the given one and has held for one look, or with
 * undefined when the signal fires. Looks at times and sizes: editors replace files in ways that watches miss.
 */
export async function changed(folder: string, since: string, signal: AbortSignal): Promise<string | undefined> {
  let before = since;
  for (;;) {
    await delay(everyMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return undefined;
    const now = await fingerprint(folder);
    if (now !== since && now === before) return now;
    before = now;
  }
}

/** Path, size and time of every file of a plugin but the executable a build writes. */
export async function fingerprint(folder: string): Promise<string> {
  const hash = createHash('sha256');
  await visit(folder, '', (line) => hash.update(line));
  return hash.digest('hex');
}

async function visit(folder: string, inside: string, add: (line: string) => void): Promise<void> {
  const entries = await readdir(join(folder, inside), { withFileTypes: true }).catch(() => []);
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(inside, entry.name);
    if (!isPluginFile(entry.name)) continue;
    if (entry.isDirectory()) await visit(folder, path, add);
    else {
      const found = await stat(join(folder, path)).catch(() => undefined);
      if (found !== undefined && path !== basename(folder)) add(`${path}\0${found.size}\0${found.mtimeMs}\n`);
    }
  }
}
