import { createHash } from 'node:crypto';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { AppError, canonicalJson, isAppError, isPluginName } from '@codedock/domain';
import { defaultSettings, type PluginSettings, parseSettings, saysNotRequired } from './manifest-file.js';
import { guardExecutable, guardPath } from './path-guard.js';

/** A folder that can be started as a plugin. */
export interface Candidate {
  readonly kind: 'candidate';
  readonly name: string;
  readonly folder: string;
  /** Program (absolute path, or a name to be found on PATH) and its arguments. */
  readonly command: readonly [string, ...string[]];
  /** Files of the folder that the command runs; their content makes the checksum. */
  readonly files: readonly string[];
  readonly settings: PluginSettings;
  /** SHA-256 of the canonical `config`, hex. */
  readonly configDigest: string;
}

/** A folder that looks like a plugin and may not run. */
export interface Refusal {
  readonly kind: 'refusal';
  readonly name: string;
  readonly folder: string;
  readonly reason: string;
  readonly required: boolean;
  /** JSON of its plugin.json's `match`; empty = it would be asked for everything, as far as is known. */
  readonly matchJson: string;
}

/** What a scan found, in chain order; `skipped` holds one line for each folder that is not meant as a plugin. */
export interface ScanResult {
  readonly plugins: readonly (Candidate | Refusal)[];
  readonly skipped: readonly string[];
}

/**
 * Finds the plugins of the roots: roots in their order, within a root by folder name in byte order; a name found
 * again in a later root replaces the earlier one. A root that does not exist holds no plugins.
 */
export async function scanRoots(roots: readonly string[]): Promise<ScanResult> {
  const found = new Map<string, Candidate | Refusal>();
  const skipped: string[] = [];
  for (const root of roots) {
    for (const result of await scanRoot(root, skipped)) {
      found.delete(result.name);
      found.set(result.name, result);
    }
  }
  return { plugins: [...found.values()], skipped };
}

/**
 * Looks at one folder as a scan of its parent would, under the name it has. @throws AppError `invalid_request` where there
 * is no such folder.
 */
export async function scanFolder(path: string): Promise<Candidate | Refusal> {
  const folder = await realpath(path).catch((error: NodeJS.ErrnoException) => {
    throw new AppError('invalid_request', `the folder ${path} cannot be read (${error.code})`);
  });
  const name = basename(folder);
  const found = await inspect(dirname(folder), folder, name);
  if (found !== undefined) return found;
  const reason = `it holds neither plugin.json nor an executable called ${name}; build the plugin first`;
  return { kind: 'refusal', name, folder, reason, required: true, matchJson: '' };
}

async function scanRoot(path: string, skipped: string[]): Promise<(Candidate | Refusal)[]> {
  let root: string;
  let entries: string[];
  try {
    root = await realpath(path);
    entries = await readdir(root);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') {
      throw new AppError(
        'config_invalid',
        `the plugin folder ${path} cannot be read (${code}); correct CODEDOCK_PLUGIN_DIR or its permissions`,
      );
    }
    skipped.push(`${path}: the folder does not exist; no plugins from it`);
    return [];
  }
  const results: (Candidate | Refusal)[] = [];
  for (const name of entries.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
    const folder = join(root, name);
    if (name.startsWith('.')) {
      skipped.push(`${folder}: skipped, its name starts with a dot`);
      continue;
    }
    if (
      !(await stat(folder).then(
        (status) => status.isDirectory(),
        () => true,
      ))
    ) {
      skipped.push(`${folder}: skipped, it is not a folder`);
      continue;
    }
    const result = await inspect(root, folder, name);
    if (result === undefined)
      skipped.push(`${folder}: skipped, it holds neither plugin.json nor an executable called ${name}`);
    else results.push(result);
  }
  return results;
}

async function inspect(root: string, folder: string, name: string): Promise<Candidate | Refusal | undefined> {
  let required = true;
  let matchJson = '';
  try {
    await guardPath(root, folder, 'the folder');
    const text = await readFile(join(folder, 'plugin.json'), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw new AppError('plugin_refused', `plugin.json cannot be read (${error.code})`);
    });
    if (
      text === undefined &&
      !(await stat(join(folder, name)).then(
        () => true,
        () => false,
      ))
    )
      return undefined;
    if (!isPluginName(name)) {
      throw new AppError(
        'plugin_refused',
        `"${name}" is not a plugin name: lower-case letters, digits and "-", at most 63; rename the folder`,
      );
    }
    if (text !== undefined) {
      await guardPath(root, join(folder, 'plugin.json'), 'the file');
      required = !saysNotRequired(text);
    }
    const settings = text === undefined ? defaultSettings : readSettings(folder, text);
    matchJson = settings.matchJson;
    const { command, files } = await resolveCommand(root, folder, name, settings);
    requireDigests(folder, files, settings);
    const configDigest = createHash('sha256').update(canonicalJson(settings.config)).digest('hex');
    return { kind: 'candidate', name, folder, command, files, settings, configDigest };
  } catch (error) {
    if (!isAppError(error, 'plugin_refused')) throw error;
    return { kind: 'refusal', name, folder, reason: error.message, required, matchJson };
  }
}

function readSettings(folder: string, text: string): PluginSettings {
  try {
    return parseSettings(text);
  } catch (error) {
    throw new AppError('plugin_refused', `${join(folder, 'plugin.json')}: ${(error as Error).message}`);
  }
}

/** Every file that is executed needs its digest, or none; anything else would look safer than it is. */
function requireDigests(folder: string, files: readonly string[], { sha256 }: PluginSettings): void {
  if (sha256 === undefined) return;
  const names = files.map((file) => relative(folder, file));
  if (typeof sha256 === 'string') {
    if (names.length === 1) return;
    throw new AppError(
      'plugin_refused',
      `"sha256" is one digest, but "command" names several files: give {${names.map((name) => `"${name}": …`).join(', ')}}`,
    );
  }
  for (const name of names) {
    if (sha256[name] === undefined) throw new AppError('plugin_refused', `"sha256" has no digest of ${name}; add it`);
  }
  for (const name of Object.keys(sha256)) {
    if (!names.includes(name))
      throw new AppError(
        'plugin_refused',
        `"sha256" names ${name}, which "command" does not execute; remove it or name it in "command"`,
      );
  }
}

/** A first word with a slash or of the folder's own files is the plugin's program, any other is looked up on PATH. */
async function resolveCommand(
  root: string,
  folder: string,
  name: string,
  settings: PluginSettings,
): Promise<{ command: [string, ...string[]]; files: string[] }> {
  const [program = name, ...words] = settings.command ?? [name];
  const isFile = (word: string) =>
    stat(join(folder, word)).then(
      (status) => status.isFile(),
      () => false,
    );
  const files: string[] = [];
  let executable = program;
  if (settings.command === undefined || program.includes('/') || (await isFile(program))) {
    executable = join(folder, program);
    if (
      !(await stat(executable).then(
        () => true,
        () => false,
      ))
    ) {
      throw new AppError(
        'plugin_refused',
        `${executable} does not exist; build the plugin or correct "command" in plugin.json`,
      );
    }
    const real = await guardPath(root, executable, 'the file');
    await guardExecutable(real);
    files.push(executable);
  } else if (basename(program) !== program) {
    throw new AppError('plugin_refused', `"command" may not start with ${program}`);
  }
  for (const word of words) {
    if (word.startsWith('-') || !(await isFile(word))) continue;
    await guardPath(root, join(folder, word), 'the file');
    files.push(join(folder, word));
  }
  if (files.length === 0) {
    throw new AppError('plugin_refused', '"command" in plugin.json names no file of the plugin\'s folder');
  }
  return { command: [executable, ...words], files };
}
