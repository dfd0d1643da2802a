import { readdir, stat } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import { buildPlugin, exists, type FolderCommand, hasNpmScript } from './build.js';
import { runProgram } from './run-program.js';
import { type HostedTest, hostedTest } from './workbench.js';

/** What testing a folder found out. */
export interface TestReport {
  readonly folder: string;
  /** Absent where the folder has no tests of its own. */
  readonly own?: { readonly command: string; readonly passed: boolean; readonly output: string };
  readonly hosted: HostedTest;
  /** Recordings that were asked, or the place where none were found. */
  readonly recordings: readonly string[];
  readonly passed: boolean;
}

/** What is tested beside the plugin's own tests. */
export interface TestOptions {
  /** Recordings in place of those of the folder. */
  readonly replay?: readonly string[];
  onStep(what: string): void;
}

/** Where a plugin's folder keeps its recordings. */
const recordingsFolder = 'recordings';

/**
 * Builds a plugin, runs its own tests, starts it by the code of the plugin-host and asks it every recorded question.
 * @throws Error where it cannot be built or does not come up, with the reason.
 */
export async function testPluginFolder(given: string, { replay, onStep }: TestOptions): Promise<TestReport> {
  const folder = await pluginFolder(given);
  await buildPlugin(folder, onStep);
  const own = await runOwnTests(folder, onStep);
  const recordings = replay?.map((file) => resolve(file)) ?? (await recordingsOf(folder));
  onStep('the plugin under the code of the plugin-host');
  const hosted = await hostedTest(folder, recordings);
  const passed = own?.passed !== false && hosted.replayed.every(({ differences }) => differences.length === 0);
  return { folder, ...(own === undefined ? {} : { own }), hosted, recordings, passed };
}

/** The absolute path of a folder. @throws Error where there is none. */
export async function pluginFolder(given: string): Promise<string> {
  const folder = resolve(given);
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory() !== true)
    throw new Error(`${folder} is no folder; name the folder of a plugin, or make one with codedock plugin new.`);
  return folder;
}

/** Recordings that lie in a plugin's folder. */
export async function recordingsOf(folder: string): Promise<string[]> {
  const names = await readdir(join(folder, recordingsFolder)).catch(() => []);
  return names
    .filter((name) => name.endsWith('.jsonl'))
    .sort()
    .map((name) => join(folder, recordingsFolder, name));
}

/** The report for people. */
export function describeTest({ folder, own, hosted, recordings, passed }: TestReport): string {
  const { name, version, transport, subscriptions, tools, replayed } = hosted;
  const lines = [
    own === undefined
      ? 'own tests    none found (a test script in package.json, go.mod, or test_*.py)'
      : `own tests    ${own.passed ? 'passed' : 'FAILED'} (${own.command})`,
    ...(own?.passed === false ? [indented(own.output)] : []),
    `plugin-host  ready: ${name} ${version} over ${transport}, subscribes to ${subscriptions.join(', ') || 'nothing'}${tools.length > 0 ? `, tools ${tools.join(', ')}` : ''}`,
    recordings.length === 0
      ? `recordings   none in ${join(relative('', folder), recordingsFolder)}; codedock plugin record ${name} --out … makes one`
      : `recordings   ${replayed.length} questions of ${recordings.map((file) => basename(file)).join(', ')}`,
  ];
  for (const { file, question, type, recorded, now, differences } of replayed) {
    if (differences.length === 0) continue;
    lines.push(`  ${basename(file)} question ${question}, ${type}: recorded ${recorded ?? 'no answer'}, now ${now}`);
    lines.push(...differences.map((one) => `    ${one}`));
  }
  const wrong = replayed.filter(({ differences }) => differences.length > 0).length;
  if (replayed.length > 0) lines.push(`  ${replayed.length - wrong} as recorded, ${wrong} not`);
  lines.push(passed ? 'passed' : 'FAILED');
  return lines.join('\n');
}

async function runOwnTests(folder: string, onStep: (what: string) => void): Promise<TestReport['own']> {
  const found = await testCommandOf(folder);
  if (found === undefined) return undefined;
  const command = [found.program, ...found.args].join(' ');
  onStep(command);
  const { code, output } = await runProgram(found.program, found.args, {
    folder,
    ...(found.variables === undefined ? {} : { variables: found.variables }),
  });
  return { command, passed: code === 0, output: output.trim() };
}

async function testCommandOf(folder: string): Promise<FolderCommand | undefined> {
  if (await hasNpmScript(folder, 'test')) return { program: 'npm', args: ['test', '--silent'] };
  if (await exists(join(folder, 'go.mod')))
    return { program: 'go', args: ['test', './...'], variables: { CGO_ENABLED: '0' } };
  const names = await readdir(folder);
  if (names.some((name) => /^test_.*\.py$/.test(name)))
    return { program: 'python3', args: ['-B', '-m', 'unittest', 'discover', '--pattern', 'test_*.py'] };
  return undefined;
}

function indented(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}
