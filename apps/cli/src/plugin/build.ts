import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { runProgram } from './run-program.js';

/** A command that is run in a plugin's folder. */
export interface FolderCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
}

/** How a plugin's folder is built; undefined where its sources are what runs. */
export async function buildCommandOf(folder: string): Promise<FolderCommand | undefined> {
  if (await hasNpmScript(folder, 'build')) return { program: 'npm', args: ['run', '--silent', 'build'] };
  if (await exists(join(folder, 'go.mod')))
    return { program: 'go', args: ['build', '-o', basename(folder), '.'], variables: { CGO_ENABLED: '0' } };
  return undefined;
}

/** Builds a plugin's folder where there is something to build. @throws Error with all the output when that fails. */
export async function buildPlugin(folder: string, onStep: (what: string) => void = () => undefined): Promise<void> {
  const command = await buildCommandOf(folder);
  if (command === undefined) return;
  const { program, args, variables } = command;
  const said = [program, ...args].join(' ');
  onStep(said);
  const { code, output } = await runProgram(program, args, { folder, ...(variables ? { variables } : {}) });
  if (code !== 0) throw new Error(`${said} failed in ${folder}:\n${output.trim()}`);
}

/** Whether the folder's package.json has a script. */
export async function hasNpmScript(folder: string, script: string): Promise<boolean> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => undefined);
  if (text === undefined) return false;
  try {
    return (JSON.parse(text) as { scripts?: Record<string, string> }).scripts?.[script] !== undefined;
  } catch {
    throw new Error(`${join(folder, 'package.json')} is no JSON.`);
  }
}

/** Whether there is a file or folder. */
export function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
