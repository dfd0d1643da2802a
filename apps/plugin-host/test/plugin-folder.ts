import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The repository's root, where plugins written for tests find their libraries. */
export const repositoryRoot = join(__dirname, '..', '..', '..');

/** A plugin root for one test. */
export interface PluginRoot {
  readonly path: string;
  /** An empty folder for temporary files, with a short path. */
  readonly temporary: string;
  /** Adds the fixture plugin; `config` says how it behaves, `settings` are further fields of its plugin.json. */
  addFixture(name: string, config?: object, settings?: object): string;
  /** Adds the fixture plugin that speaks NDJSON; it needs python3. */
  addNdjson(name: string, config?: object, settings?: object): string;
  /** Adds a copy of a folder of `examples`. */
  addExample(name: string): string;
  /** Adds a plugin whose executable is the given text. */
  addScript(name: string, text: string, settings?: object): string;
  remove(): void;
}

export function createPluginRoot(): PluginRoot {
  const base = mkdtempSync(join(tmpdir(), 'cd-'));
  const path = join(base, 'plugins');
  const temporary = join(base, 't');
  mkdirSync(path);
  mkdirSync(temporary);
  const folderOf = (name: string) => {
    const folder = join(path, name);
    mkdirSync(folder, { recursive: true });
    return folder;
  };
  return {
    path,
    temporary,
    addFixture(name, config = {}, settings = {}) {
      const folder = folderOf(name);
      copyFileSync(join(__dirname, 'fixture-plugin.cjs'), join(folder, name));
      chmodSync(join(folder, name), 0o755);
      writeFileSync(
        join(folder, 'plugin.json'),
        JSON.stringify({ ...settings, config: { root: repositoryRoot, ...config } }),
      );
      return folder;
    },
    addNdjson(name, config = {}, settings = {}) {
      const folder = folderOf(name);
      copyFileSync(join(__dirname, 'ndjson-plugin.py'), join(folder, name));
      chmodSync(join(folder, name), 0o755);
      writeFileSync(join(folder, 'plugin.json'), JSON.stringify({ ...settings, transport: 'stdio', config }));
      return folder;
    },
    addExample(name) {
      const folder = join(path, name);
      cpSync(join(repositoryRoot, 'examples', name), folder, { recursive: true });
      return folder;
    },
    addScript(name, text, settings) {
      const folder = folderOf(name);
      writeFileSync(join(folder, name), text, { mode: 0o755 });
      if (settings !== undefined) writeFileSync(join(folder, 'plugin.json'), JSON.stringify(settings));
      return folder;
    },
    remove: () => rmSync(base, { recursive: true, force: true }),
  };
}
