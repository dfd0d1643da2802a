import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { AppError } from '@codedock/domain';

/** Files of a plugin's folder that are to be executed from a copy nobody else can change. */
export interface CopySpec {
  readonly folder: string;
  /** Absolute paths in the folder. */
  readonly files: readonly string[];
  readonly command: readonly [string, ...string[]];
  /** SHA-256, hex: of the only file, or by path relative to the folder. */
  readonly sha256: string | Readonly<Record<string, string>>;
}

/**
 * Copies the files into a folder of mode 0700, checks the copies, and answers the command that runs them. What is
 * checked is what is executed, whatever happens to the original meanwhile.
 * @throws AppError `plugin_refused` naming the file whose content is not the one announced.
 */
export async function privateCopy(spec: CopySpec, target: string): Promise<[string, ...string[]]> {
  await mkdir(target, { mode: 0o700 });
  const copies = new Map<string, string>();
  for (const file of spec.files) {
    const name = relative(spec.folder, file);
    const copy = join(target, name);
    await mkdir(dirname(copy), { recursive: true, mode: 0o700 });
    await copyFile(file, copy);
    await chmod(copy, 0o500);
    const actual = createHash('sha256')
      .update(await readFile(copy))
      .digest('hex');
    const expected = typeof spec.sha256 === 'string' ? spec.sha256 : spec.sha256[name];
    if (actual !== expected) {
      throw new AppError(
        'plugin_refused',
        `${name} has the SHA-256 ${actual}, "sha256" in plugin.json says ${expected}; if the change is meant, correct plugin.json`,
      );
    }
    copies.set(file, copy);
  }
  const [program, ...words] = spec.command;
  return [copies.get(program) ?? program, ...words.map((word) => copies.get(resolve(spec.folder, word)) ?? word)];
}
