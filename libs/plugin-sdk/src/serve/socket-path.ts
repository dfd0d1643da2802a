import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Bytes of the longest socket path; longer ones are cut silently by the system's library. */
const maxPathBytes = process.platform === 'darwin' ? 103 : 107;

/** A path to listen on, and how to remove what was made for it. */
export interface SocketPath {
  readonly path: string;
  remove(): void;
}

/** A new path in the host's folder, or in a private temporary one. @throws Error when it would be too long. */
export function createSocketPath(directory: string | undefined): SocketPath {
  const own = directory === undefined ? mkdtempSync(join(tmpdir(), 'cdp')) : undefined;
  const path = join(own ?? directory ?? '', `plugin${randomInt(1_000_000_000)}`);
  const remove = () => rmSync(own ?? path, { recursive: true, force: true });
  const bytes = Buffer.byteLength(path);
  if (bytes > maxPathBytes) {
    remove();
    throw new Error(
      `the socket path ${path} has ${bytes} bytes, at most ${maxPathBytes} work; start the host with a shorter ${directory === undefined ? 'TMPDIR' : 'socket folder'}`,
    );
  }
  return { path, remove };
}
