import { cp, mkdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** Left in a copy, so that nothing else is ever replaced or removed. */
const marker = '.codedock-dev';
/** What no plugin needs to run. Names that begin with a dot are left out too. */
const notCopied: ReadonlySet<string> = new Set([
  'node_modules',
  'vendor',
  'recordings',
  '__pycache__',
  'build',
  'dist',
]);

/** A plugin's folder in a root of a running host. */
export interface Installed {
  readonly folder: string;
  /** Copies the folder's files again. */
  refresh(): Promise<void>;
  /** Removes the copy; a folder that lies in the root itself stays. */
  remove(): Promise<void>;
}

/**
 * Puts a plugin into a root: as a copy, or not at all where its folder lies in the root already. @throws Error where the
 * root does not exist, or holds a plugin of the name that was not put there by this command.
 */
export async function installPlugin(folder: string, root: string): Promise<Installed> {
  const found = await stat(root).catch(() => undefined);
  if (found?.isDirectory() !== true)
    throw new Error(`${root} is no folder; start npm start once, or name a root of the plugin-host by --root.`);
  if ((await realpath(dirname(folder))) === (await realpath(root)))
    return { folder, refresh: async () => undefined, remove: async () => undefined };
  const name = basename(folder);
  const target = join(root, name);
  const refresh = async () => {
    await requireOwn(target);
    const fresh = join(root, `.${name}.new`);
    const old = join(root, `.${name}.old`);
    for (const left of [fresh, old]) await rm(left, { recursive: true, force: true });
    await copy(folder, fresh);
    await rename(target, old).catch(ignoreMissing);
    await rename(fresh, target);
    await rm(old, { recursive: true, force: true });
  };
  await refresh();
  return { folder: target, refresh, remove: () => rm(target, { recursive: true, force: true }) };
}

/** Whether a file of a plugin's folder belongs to what is run. */
export function isPluginFile(name: string): boolean {
  return !name.startsWith('.') && !notCopied.has(name);
}

async function copy(folder: string, target: string): Promise<void> {
  await mkdir(target, { mode: 0o755 });
  const filter = (source: string) => source === folder || isPluginFile(basename(source));
  await cp(folder, target, { recursive: true, filter });
  await writeFile(join(target, marker), 'Put here by codedock plugin dev, and removed by it.\n');
}

async function requireOwn(target: string): Promise<void> {
  if ((await stat(target).catch(() => undefined)) === undefined) return;
  if ((await stat(join(target, marker)).catch(() => undefined)) !== undefined) return;
  throw new Error(`${target} exists and was not put there by this command; remove it, or name another --root.`);
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
