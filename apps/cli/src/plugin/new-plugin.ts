import { lstat, mkdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { buildPlugin } from './build.js';
import type { Language } from './language.js';
import { requirePluginName } from './name.js';
import { runProgram } from './run-program.js';
import { copyTemplate, nameMarks } from './template.js';

/** What is to be made. */
export interface NewPlugin {
  readonly name: string;
  readonly language: Language;
  /** The folder that the plugin's own folder is made in. */
  readonly parent: string;
  /** Install dependencies and build. */
  readonly install: boolean;
  /** Told before every step that takes a while. */
  onStep(what: string): void;
}

const templates = resolve(__dirname, '../../templates');
const clone = resolve(__dirname, '../../../..');
const example = join(clone, 'plugin', 'example');

/**
 * Makes the folder of a new plugin, ready to be built or built already, and answers its path. In a folder of this clone
 * that npm counts among its workspaces the plugin is a workspace too, anywhere else it stands on its own: the SDK it is
 * built with is packed into it. @throws Error for a bad name, a folder that exists, a program that is missing, and a
 * build that fails; the files stay then.
 */
export async function newPlugin(wanted: NewPlugin): Promise<string> {
  const { name, language, onStep } = wanted;
  requirePluginName(name);
  const parent = resolve(wanted.parent);
  const found = await stat(parent).catch(() => undefined);
  if (found?.isDirectory() !== true) throw new Error(`${parent} is no folder; make it, or name another one by --in.`);
  const folder = join(parent, name);
  if ((await lstat(folder).catch(() => undefined)) !== undefined)
    throw new Error(`${folder} exists already; choose another name, or remove it.`);
  if (language === 'go' && wanted.install) await requireProgram('go', ['version'], 'Go 1.26 or newer', parent);
  await write(folder, wanted);
  if (wanted.install) await finish(folder, language, onStep);
  return folder;
}

async function write(folder: string, { name, language, onStep }: NewPlugin): Promise<void> {
  const marks = nameMarks(name);
  if (language !== 'typescript') return copyTemplate(join(templates, language), folder, marks);
  if (isWorkspace(folder)) return copyTemplate(example, folder, exampleMarks(name), builtFiles);
  onStep('packing the SDK');
  const packed = await packSdk(join(folder, 'vendor'));
  await copyTemplate(join(templates, 'typescript'), folder, { ...marks, ...packed });
  await copyTemplate(join(example, 'src'), join(folder, 'src'), exampleMarks(name), new Set(['plugin.spec.ts']));
}

async function finish(folder: string, language: Language, onStep: (what: string) => void): Promise<void> {
  if (language === 'typescript' && !isWorkspace(folder)) {
    onStep('npm install');
    const flags = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];
    const { code, output } = await runProgram('npm', ['install', ...flags], { folder });
    if (code !== 0) throw new Error(`The folder ${folder} is made, but npm install failed in it:\n${output.trim()}`);
  }
  await buildPlugin(folder, onStep);
}

/** Left beside the sources of the example where it was built. */
const builtFiles: ReadonlySet<string> = new Set(['dist', 'example', 'node_modules']);

/** The example's own name, wherever it means the plugin. */
function exampleMarks(name: string): Readonly<Record<string, string>> {
  return {
    "name: 'example'": `name: '${name}'`,
    '@codedock/plugin-example': `@codedock/plugin-${name}`,
    '--outfile=example': `--outfile=${name}`,
    '{projectRoot}/example': `{projectRoot}/${name}`,
    'Template plugin: subscribes to nothing, changes nothing.': 'A CodeDock plugin.',
    ' Copy the folder, rename it (folder, package.json, `name` below) and add what you need.': ' Add what you need.',
  };
}

function isWorkspace(folder: string): boolean {
  return ['plugin', 'examples'].some((workspaces) => dirname(folder) === join(clone, workspaces));
}

/** Packs the SDK that this command belongs to, and what it needs of this clone. Answers the names of the archives. */
async function packSdk(folder: string): Promise<Readonly<Record<string, string>>> {
  const sdk = dirname(require.resolve('@codedock/plugin-sdk/package.json'));
  const proto = join(clone, 'libs', 'proto');
  for (const one of [sdk, proto]) {
    if ((await stat(join(one, 'dist', 'index.js')).catch(() => undefined)) === undefined)
      throw new Error(`${one} is not built yet; run npm run build in the clone, then try again.`);
  }
  await mkdir(folder, { recursive: true });
  const args = ['pack', sdk, proto, '--pack-destination', folder, '--loglevel=error'];
  const { code, output } = await runProgram('npm', args, { folder });
  if (code !== 0) throw new Error(`The SDK could not be packed:\n${output.trim()}`);
  return { __SDK__: await archiveOf(sdk), __PROTO__: await archiveOf(proto) };
}

async function archiveOf(folder: string): Promise<string> {
  const { name, version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<string, string>;
  return `${name?.replace(/^@/, '').replace('/', '-')}-${version}.tgz`;
}

async function requireProgram(program: string, args: readonly string[], what: string, folder: string): Promise<void> {
  await runProgram(program, args, { folder }).catch((error: Error) => {
    throw new Error(`${error.message} This template needs ${what}: install it, or choose another --language.`);
  });
}
