import { createHash } from 'node:crypto';
import { chmod, copyFile, lstat, mkdir, mkdtemp, readdir, rename, rm, symlink } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedPostgresError } from './errors.js';
import { canEnter, type RunIdentity } from './run-identity.js';

/** What to copy: the package's `native` folder and the links (relative to it) that belong into the copy. */
export interface RuntimeSource {
  readonly native: string;
  readonly links: readonly { readonly source: string; readonly target: string }[];
  readonly version: string;
  readonly identity: RunIdentity | undefined;
}

interface RuntimeFile {
  readonly name: string;
  readonly size: number;
  readonly mode: number;
}

/**
 * Returns a folder with a complete copy of the PostgreSQL runtime that `identity` can enter; about 55 MB, made once
 * per version and reused. The copy appears under its name complete or not at all. A copy that another user made,
 * that others may write, or that lost files is not used.
 */
export async function copyRuntime(source: RuntimeSource): Promise<string> {
  const parent = await enterableTemporaryFolder(source.identity);
  const files = await listFiles(source.native);
  const digest = createHash('sha256')
    .update(JSON.stringify([files, source.links, process.getuid?.() ?? -1]))
    .digest('hex')
    .slice(0, 12);
  const final = path.join(parent, `codedock-pg-${source.version}-${digest}`);
  if (await isIntact(final, files, source.links)) {
    return final;
  }
  const fresh = await mkdtemp(`${final}.new-`);
  try {
    await fill(fresh, source, files);
    return await publish(fresh, final, files, source.links);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

async function publish(
  fresh: string,
  final: string,
  files: readonly RuntimeFile[],
  links: RuntimeSource['links'],
): Promise<string> {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      await rename(fresh, final);
      return final;
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code;
      if (code !== 'ENOTEMPTY' && code !== 'EEXIST' && code !== 'ENOTDIR') {
        throw new EmbeddedPostgresError(`Could not place the PostgreSQL runtime at ${final}.`, {
          cause,
        });
      }
    }
    if (await isIntact(final, files, links)) {
      return final;
    }
    // Damaged (temporary folders get cleaned file by file): moved aside, so that a running server keeps its files.
    const aside = `${final}.damaged-${process.pid}-${attempt}`;
    await rename(final, aside).catch(() => undefined);
    await rm(aside, { recursive: true, force: true }).catch(() => undefined);
  }
  throw new EmbeddedPostgresError(
    `${final} is not a PostgreSQL runtime of this user and could not be replaced. Delete it and start again.`,
  );
}

async function enterableTemporaryFolder(identity: RunIdentity | undefined): Promise<string> {
  const candidates = [...new Set([os.tmpdir(), '/tmp', '/var/tmp'])];
  for (const candidate of candidates) {
    const stats = await lstat(candidate).catch(() => undefined);
    if (stats && (identity === undefined || (await canEnter(candidate, identity)))) {
      return candidate;
    }
  }
  throw new EmbeddedPostgresError(
    `None of ${candidates.join(', ')} can be entered by uid ${identity?.uid}. ` +
      'Set TMPDIR to a folder that every user may enter, or set DATABASE_URL to your own PostgreSQL.',
  );
}

/** Regular files below `root`, sorted; static libraries are left out, they serve only for building extensions. */
async function listFiles(root: string, below = ''): Promise<RuntimeFile[]> {
  const entries = await readdir(path.join(root, below), { withFileTypes: true });
  const found: RuntimeFile[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = path.join(below, entry.name);
    if (entry.isDirectory()) {
      found.push(...(await listFiles(root, name)));
    } else if (entry.isFile() && !name.endsWith('.a')) {
      const stats = await lstat(path.join(root, name));
      found.push({ name, size: stats.size, mode: stats.mode & 0o111 ? 0o755 : 0o644 });
    }
  }
  return found;
}

async function fill(folder: string, source: RuntimeSource, files: readonly RuntimeFile[]) {
  // Modes are set explicitly: the server's user must be able to read whatever the umask is.
  await chmod(folder, 0o755);
  const folders = new Set<string>();
  for (const file of files) {
    const parts = path.dirname(file.name).split(path.sep);
    for (let depth = 1; depth <= parts.length; depth += 1) {
      const name = parts.slice(0, depth).join(path.sep);
      if (!folders.has(name)) {
        folders.add(name);
        await mkdir(path.join(folder, name), { recursive: true });
        await chmod(path.join(folder, name), 0o755);
      }
    }
    await copyFile(path.join(source.native, file.name), path.join(folder, file.name));
    await chmod(path.join(folder, file.name), file.mode);
  }
  for (const link of source.links) {
    const target = path.join(folder, link.target);
    await symlink(path.relative(path.dirname(link.target), link.source), target);
  }
}

async function isIntact(
  folder: string,
  files: readonly RuntimeFile[],
  links: RuntimeSource['links'],
): Promise<boolean> {
  const root = await lstat(folder).catch(() => undefined);
  if (!root?.isDirectory() || (root.mode & 0o022) !== 0 || root.uid !== ownUid(root.uid)) {
    return false;
  }
  for (const file of files) {
    const stats = await lstat(path.join(folder, file.name)).catch(() => undefined);
    if (!stats?.isFile() || stats.size !== file.size || stats.uid !== root.uid) {
      return false;
    }
  }
  for (const link of links) {
    if (!(await lstat(path.join(folder, link.target)).catch(() => undefined))?.isSymbolicLink()) {
      return false;
    }
  }
  return true;
}

function ownUid(fallback: number): number {
  return process.getuid?.() ?? fallback;
}
