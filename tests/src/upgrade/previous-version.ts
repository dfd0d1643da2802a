import { execFile } from 'node:child_process';
import { access, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { repositoryRoot } from '@codedock/testkit';

const run = promisify(execFile);

/** A built checkout of the version before this one. */
export interface PreviousVersion {
  /** Root of the checkout. */
  readonly root: string;
  readonly commit: string;
  remove(): Promise<void>;
}

const git = async (...args: readonly string[]): Promise<string> =>
  (await run('git', args, { cwd: repositoryRoot(), maxBuffer: 2 ** 26 })).stdout.trim();

/**
 * The commit of the previous version: of the newest tag that this commit is not, else the one before the newest migration
 * came. Undefined where the history is not here (an archive, a shallow clone).
 */
export async function previousCommit(): Promise<string | undefined> {
  try {
    if ((await git('rev-parse', '--is-shallow-repository')) === 'true') return undefined;
    const tag = await git('describe', '--tags', '--abbrev=0', 'HEAD^').catch(() => undefined);
    if (tag !== undefined) return await git('rev-parse', `${tag}^{commit}`);
    const newest = await git('log', '-1', '--diff-filter=A', '--format=%H', '--', 'prisma/migrations');
    return await git('rev-parse', `${newest}^`);
  } catch {
    return undefined;
  }
}

/** Checks the previous version out, gives it this version's packages (by hard links), and builds it. */
export async function buildPreviousVersion(commit: string): Promise<PreviousVersion> {
  // Inside the clone, so that packages are linked and not copied, whatever volume temporary files are on.
  const folder = await mkdtemp(path.join(await stateFolder(), 'previous-'));
  const root = path.join(folder, 'source');
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await run('sh', ['-c', 'mkdir "$1" && git archive "$2" | tar x -C "$1"', 'sh', root, commit], {
      cwd: repositoryRoot(),
    });
    await linkPackages(root);
    await run('npm', ['run', '--silent', 'client', '-w', '@codedock/store'], { cwd: root });
    await run('npm', ['run', '--silent', 'compile'], { cwd: root, maxBuffer: 2 ** 26 });
  } catch (error) {
    await remove();
    throw error;
  }
  return { root, commit, remove };
}

async function stateFolder(): Promise<string> {
  const folder = path.join(repositoryRoot(), '.codedock');
  return access(folder).then(
    () => folder,
    () => tmpdir(),
  );
}

/** The workspaces' own packages are relative links, which then lead to the checkout's. */
async function linkPackages(root: string): Promise<void> {
  await run('cp', ['-al', path.join(repositoryRoot(), 'node_modules'), path.join(root, 'node_modules')]).catch(() =>
    cp(path.join(repositoryRoot(), 'node_modules'), path.join(root, 'node_modules'), {
      recursive: true,
      verbatimSymlinks: true,
    }),
  );
  for (const group of ['apps', 'libs']) {
    for (const name of await readdir(path.join(repositoryRoot(), group))) {
      const own = path.join(group, name, 'node_modules');
      const there = await access(path.join(repositoryRoot(), own)).then(
        () => true,
        () => false,
      );
      if (there) await cp(path.join(repositoryRoot(), own), path.join(root, own), { recursive: true });
    }
  }
}
