import { constants, mkdirSync, renameSync, rmdirSync } from 'node:fs';
import { open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isJsonObject, type JsonValue } from '@codedock/domain';
import { rawMember } from '@codedock/plugin-bridge';

/** Bytes of JSON from which on a value is a file instead of a part of the line. */
export const inlineBytes = 1024 * 1024;
/** Bytes of the largest file taken; what a port or tool takes is judged later. */
const maxFileBytes = 64 * 1024 * 1024;
const fileName = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;

/** A file that cannot be what it is said to be. */
export class SpoolError extends Error {
  constructor(
    readonly outcome: 'invalid' | 'oversize',
    message: string,
  ) {
    super(message);
  }
}

/** The folder of one request: large values lie in it as files, in both directions. Gone when the request is over. */
export class Spool {
  private files = 0;
  private removed = false;

  private constructor(
    /** Absolute path, mode 0700. */
    readonly path: string,
  ) {}

  /** Makes the folder `name` in `root`. */
  static make(root: string, name: string): Spool {
    const path = join(root, name);
    mkdirSync(path, { mode: 0o700 });
    return new Spool(path);
  }

  /**
   * The text to put into the line for a JSON value: itself, or `{"$file", "bytes"}` once it is a file here. A value
   * that looks like a reference becomes a file too, so that nobody outside can name files to a plugin.
   */
  async put(json: string): Promise<string> {
    const bytes = Buffer.byteLength(json);
    if (bytes <= inlineBytes && !isReference(json)) return json;
    const name = `v${++this.files}`;
    await writeFile(join(this.path, name), json, { mode: 0o600, flag: 'wx' });
    return JSON.stringify({ $file: name, bytes });
  }

  /** The JSON text of an answered value: of the file it refers to, else `raw`. @throws SpoolError for a reference that is wrong. */
  async take(value: JsonValue | undefined, raw: string): Promise<Buffer> {
    if (!isJsonObject(value) || !Object.hasOwn(value, '$file')) return Buffer.from(raw);
    const { $file: name, bytes } = value;
    if (typeof name !== 'string' || !fileName.test(name))
      throw new SpoolError('invalid', '"$file" must be the plain name of a file in the spool folder');
    if (typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes < 0)
      throw new SpoolError('invalid', `"bytes" of the file ${name} must be its size`);
    if (bytes > maxFileBytes)
      throw new SpoolError('oversize', `the file ${name} has ${bytes} bytes, at most ${maxFileBytes}`);
    return this.read(name, bytes);
  }

  /** Removes the folder with all that is in it. What the plugin writes there later finds no folder. */
  remove(): void {
    if (this.removed) return;
    this.removed = true;
    try {
      rmdirSync(this.path);
      return;
    } catch {
      // It holds files.
    }
    const gone = `${this.path}.gone`;
    try {
      renameSync(this.path, gone);
    } catch {
      return;
    }
    // What stays after that goes with the plugin's private folder.
    rm(gone, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined);
  }

  private async read(name: string, bytes: number): Promise<Buffer> {
    // No links out of the folder, and no pipe that keeps the reader waiting.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const file = await open(join(this.path, name), flags).catch((error: NodeJS.ErrnoException) => {
      throw new SpoolError('invalid', `the file ${name} cannot be read from the spool folder (${error.code})`);
    });
    try {
      const status = await file.stat();
      if (!status.isFile() || status.size !== bytes)
        throw new SpoolError('invalid', `${name} is no file of ${bytes} bytes in the spool folder`);
      const content = Buffer.alloc(bytes);
      const { bytesRead } = await file.read(content, 0, bytes, 0);
      if (bytesRead !== bytes) throw new SpoolError('invalid', `the file ${name} has changed while it was read`);
      return content;
    } finally {
      await file.close();
    }
  }
}

function isReference(json: string): boolean {
  return (json.includes('$file') || json.includes('\\u')) && rawMember(json, '$file') !== undefined;
}
