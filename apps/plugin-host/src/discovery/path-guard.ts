import { constants } from 'node:fs';
import { access, lstat, open, realpath } from 'node:fs/promises';
import { sep } from 'node:path';
import { AppError } from '@codedock/domain';

/** Whether a path lies in a folder; both absolute, without links. */
export function isInside(root: string, path: string): boolean {
  return path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** What a file is, by its first bytes, for messages. */
export function describeContent(head: Uint8Array): string {
  const text = Buffer.from(head).toString('latin1');
  if (head.length === 0) return 'an empty file';
  if (text.startsWith('\x7fELF')) return 'an ELF binary';
  if (text.startsWith('#!')) return 'a script';
  if (text.startsWith('MZ')) return 'a Windows executable';
  if (/^(\xcf\xfa\xed\xfe|\xce\xfa\xed\xfe|\xca\xfe\xba\xbe)/.test(text)) return 'a macOS binary';
  if (text.startsWith('PK')) return 'a zip archive';
  if (text.startsWith('\x1f\x8b')) return 'a gzip archive';
  return /^[\t\n\r\x20-\x7e]*$/.test(text) ? 'text without a "#!" line' : 'binary content of an unknown kind';
}

/**
 * Checks that a file or folder is the root's own: reached without leaving the root, not writable by everyone.
 * Answers its real path. @throws AppError `plugin_refused`.
 */
export async function guardPath(root: string, path: string, what: string): Promise<string> {
  const real = await realpath(path).catch((error: NodeJS.ErrnoException) => {
    throw new AppError('plugin_refused', `${what} ${path} cannot be resolved (${error.code}); remove the broken link`);
  });
  if (!isInside(root, real)) {
    throw new AppError(
      'plugin_refused',
      `${what} ${path} is a link to ${real}, outside ${root}; copy the file into the plugin's folder`,
    );
  }
  if (((await lstat(real)).mode & 0o002) !== 0) {
    throw new AppError('plugin_refused', `${what} ${path} is writable by everyone; run chmod o-w on it`);
  }
  return real;
}

/** Checks that a file can be executed as a program or a script. @throws AppError `plugin_refused` saying what it is. */
export async function guardExecutable(path: string): Promise<void> {
  const status = await lstat(path);
  if (status.isDirectory()) throw new AppError('plugin_refused', `the executable ${path} is a folder`);
  if (!status.isFile()) throw new AppError('plugin_refused', `the executable ${path} is not a regular file`);
  const head = await readHead(path);
  const executable = await access(path, constants.X_OK).then(
    () => (status.mode & 0o111) !== 0,
    () => false,
  );
  if (!executable) {
    throw new AppError(
      'plugin_refused',
      `${path} is ${describeContent(head)} without permission to execute; run chmod +x on it`,
    );
  }
  if (!/^(\x7fELF|#!)/.test(Buffer.from(head).toString('latin1'))) {
    throw new AppError(
      'plugin_refused',
      `${path} is ${describeContent(head)}; a plugin is an ELF binary or starts with "#!"`,
    );
  }
}

async function readHead(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    throw new AppError('plugin_refused', `${path} cannot be read (${error.code})`);
  });
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
