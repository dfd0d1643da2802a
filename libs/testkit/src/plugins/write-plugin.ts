import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundlePlugin, hostileEntry } from './bundle.js';
import type { PluginMode } from './hostile/mode.js';

/** What plugin.json may hold; absent = no file. */
export interface PluginJson {
  readonly [field: string]: unknown;
}

/** A plugin by its source (a module, TypeScript or JavaScript, that calls `serve` of the SDK) or by its behaviour. */
export type PluginSource = ({ readonly source: string } | PluginMode) & { readonly pluginJson?: PluginJson };

/**
 * Writes the plugin `<rootDir>/<name>/<name>`, executable and self-contained, and its plugin.json. Writing a name again
 * replaces the plugin. Answers the path of the executable.
 */
export async function writePlugin(rootDir: string, name: string, plugin: PluginSource): Promise<string> {
  const { pluginJson, ...what } = plugin;
  const text =
    'source' in what ? await bundlePlugin({ text: what.source }) : await hostileProgram(name, what as PluginMode);
  const folder = join(rootDir, name);
  const executable = join(folder, name);
  await mkdir(folder, { recursive: true });
  if (pluginJson !== undefined)
    await writeFile(join(folder, 'plugin.json'), `${JSON.stringify(pluginJson, null, 2)}\n`);
  await writeFile(`${executable}.new`, text, { mode: 0o755 });
  await rename(`${executable}.new`, executable);
  return executable;
}

// One bundle serves all modes: what a plugin is told stands on a line of its own in front of it.
async function hostileProgram(name: string, mode: PluginMode): Promise<string> {
  const bundled = await bundlePlugin({ file: hostileEntry });
  const [interpreter = '', ...rest] = bundled.split('\n');
  return [interpreter, `globalThis.testPlugin = ${JSON.stringify({ name, mode })};`, ...rest].join('\n');
}
