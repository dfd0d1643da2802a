import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { repositoryRoot } from '@codedock/testkit';

/** What a reader of a tutorial does, in order: write a file, or give commands. */
export type Step =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | { readonly kind: 'commands'; readonly text: string };

/** A line with nothing but a file's name before a block makes it that file; a block `sh` is given to a shell. */
const BLOCK = /(?:^`([^`\n]+)`:\n\n)?^```(\w*)\n([\s\S]*?)^```$/gm;
const COMMANDS_MS = 280_000;
const program = path.join(repositoryRoot(), 'apps/cli/bin/codedock.cjs');

/** The steps of a tutorial of docs/plugins/tutorials. */
export function stepsOf(tutorial: string): Step[] {
  const text = readFileSync(path.join(repositoryRoot(), 'docs/plugins/tutorials', `${tutorial}.md`), 'utf8');
  return [...text.matchAll(BLOCK)].flatMap(([, name, language, block = '']): Step[] => {
    if (name !== undefined) return [{ kind: 'file', name, text: block }];
    return language === 'sh' ? [{ kind: 'commands', text: block }] : [];
  });
}

/** Does what a tutorial says, in an empty folder. Answers the folder it ends in, and what the commands printed. */
export async function follow(
  tutorial: string,
  start: string,
): Promise<{ readonly folder: string; readonly printed: string }> {
  let folder = start;
  let printed = '';
  await mkdir(start, { recursive: true });
  const place = path.join(start, '.place');
  for (const step of stepsOf(tutorial)) {
    if (step.kind === 'file') await writeFile(path.join(folder, step.name), step.text);
    else {
      printed += await shell(`${step.text}\npwd >'${place}'`, folder);
      folder = (await readFile(place, 'utf8')).trim();
    }
  }
  return { folder, printed };
}

/** Gives commands to a shell in which `codedock` is the built command. @throws Error with all they printed. */
export async function shell(commands: string, folder: string): Promise<string> {
  const script = `set -eu\ncodedock() { '${process.execPath}' '${program}' "$@"; }\n${commands}`;
  const given = { cwd: folder, timeout: COMMANDS_MS, maxBuffer: 16 * 1024 * 1024 };
  try {
    const { stdout, stderr } = await promisify(execFile)('sh', ['-c', script], given);
    return stdout + stderr;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`these commands failed:\n${commands}\n${stdout}${stderr}`, { cause: error });
  }
}
