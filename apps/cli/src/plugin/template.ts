import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What stands in templates for the plugin's name, in texts and in names of files. */
const nameMark = '__NAME__';

/**
 * Copies a template: a file `gitignore` becomes `.gitignore`, marks become their values, the right to execute stays.
 * Names of `except` (of files and folders at any depth) are left out.
 */
export async function copyTemplate(
  template: string,
  target: string,
  marks: Readonly<Record<string, string>>,
  except: ReadonlySet<string> = new Set(),
): Promise<void> {
  await mkdir(target, { recursive: true, mode: 0o755 });
  for (const entry of await readdir(template, { withFileTypes: true })) {
    if (except.has(entry.name)) continue;
    const from = join(template, entry.name);
    const to = join(target, filled(entry.name === 'gitignore' ? '.gitignore' : entry.name, marks));
    if (entry.isDirectory()) await copyTemplate(from, to, marks, except);
    else {
      await writeFile(to, filled(await readFile(from, 'utf8'), marks));
      await chmod(to, ((await stat(from)).mode & 0o111) === 0 ? 0o644 : 0o755);
    }
  }
}

/** The marks of a template that has no other than the name. */
export function nameMarks(name: string): Readonly<Record<string, string>> {
  return { [nameMark]: name };
}

function filled(text: string, marks: Readonly<Record<string, string>>): string {
  return Object.entries(marks).reduce((result, [mark, value]) => result.replaceAll(mark, value), text);
}
