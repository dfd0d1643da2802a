import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { HostMethod } from '@codedock/plugin-host';
import { repositoryRoot, writePlugin } from '@codedock/testkit';

/** What the build of the peers left for the suites; `absent` says why there is nothing. */
export interface BuiltPeers {
  readonly go: GoPeers | { readonly absent: string };
  readonly python: PythonPeer | { readonly absent: string };
}

interface GoPeers {
  /** The plugin on the newest go-plugin, and on the oldest that a host may meet. */
  readonly plugin: string;
  readonly oldPlugin: string;
  /** A go-plugin client that drives one plugin. */
  readonly host: string;
}

interface PythonPeer {
  readonly interpreter: string;
  /** Folders for sys.path. */
  readonly paths: readonly string[];
}

/** A plugin in some language, under the name of its folder. */
export interface Peer {
  readonly name: string;
  /** Whether what its code prints arrives; libraries before go-plugin 1.1 have no service for it. */
  readonly printsArrive: boolean;
  /** Calls of the host that its transport does not offer. */
  readonly without?: readonly HostMethod[];
  /** Puts it into a plugin root; answers the path of its executable. */
  install(root: string, name?: string, pluginJson?: object): Promise<string>;
}

const builtFile = path.join(repositoryRoot(), '.codedock', 'interop', 'peers.json');

/** What was built. @throws Error when nothing was: the suites run by `npm run test:interop`. */
export function builtPeers(): BuiltPeers {
  if (!existsSync(builtFile)) throw new Error(`${builtFile} does not exist; run the suites by: npm run test:interop`);
  return JSON.parse(readFileSync(builtFile, 'utf8')) as BuiltPeers;
}

const built = builtPeers();

/** The plugin written with the SDK. */
export const typescript: Peer = {
  name: 'typescript',
  printsArrive: true,
  install: (root, name = 'typescript', pluginJson) =>
    writePlugin(root, name, {
      source: readFileSync(path.join(repositoryRoot(), 'tests/src/interop/typescript-plugin.ts'), 'utf8'),
      ...(pluginJson === undefined ? {} : { pluginJson: { ...pluginJson } }),
    }),
};

/** The plugin written in Go, or why there is none. */
export const go: Peer | string = 'absent' in built.go ? built.go.absent : goPeer('go', built.go.plugin, true);

/** The same source on go-plugin 1.0.1. */
export const oldGo: Peer | string =
  'absent' in built.go ? built.go.absent : goPeer('go-old', built.go.oldPlugin, false);

/** The go-plugin client, or why there is none. */
export const goHost: { readonly program: string } | string =
  'absent' in built.go ? built.go.absent : { program: built.go.host };

/** The plugin written in Python, or why there is none. */
export const python: Peer | string = 'absent' in built.python ? built.python.absent : pythonPeer(built.python);

/** The plugin that speaks NDJSON on stdio; on Python's own library, so that it is there wherever Python is. */
export const ndjson: Peer | string =
  spawnSync('python3', ['--version']).status === 0
    ? {
        name: 'ndjson',
        printsArrive: false,
        without: ['Emit', 'GetActiveTools', 'SetActiveTools', 'GetSystemPrompt'],
        async install(root, name = 'ndjson', pluginJson) {
          const folder = await folderFor(root, name, { ...pluginJson, transport: 'stdio' });
          const executable = path.join(folder, name);
          await copyFile(path.join(repositoryRoot(), 'tests/interop/ndjson/plugin.py'), executable);
          await chmod(executable, 0o755);
          return executable;
        },
      }
    : 'there is no python3 on PATH';

/** Wherever a peer may be absent: its suite, or a skipped test that says why. */
export function describePeer<T extends object>(title: string, peer: T | string, suite: (peer: T) => void): void {
  if (typeof peer === 'string') describe(title, () => it.skip(`is not run: ${peer}`, () => undefined));
  else describe(title, () => suite(peer));
}

function goPeer(ownName: string, program: string, printsArrive: boolean): Peer {
  return {
    name: ownName,
    printsArrive,
    async install(root, name = ownName, pluginJson) {
      const executable = path.join(await folderFor(root, name, pluginJson), name);
      await copyFile(program, executable);
      return executable;
    },
  };
}

function pythonPeer({ interpreter, paths }: PythonPeer): Peer {
  return {
    name: 'python',
    printsArrive: true,
    async install(root, name = 'python', pluginJson) {
      const executable = path.join(await folderFor(root, name, pluginJson), name);
      const lines = [
        `#!${interpreter}`,
        'import sys',
        `sys.path[:0] = ${JSON.stringify(paths)}`,
        'from plugin_main import main',
        'main()',
      ];
      await writeFile(executable, `${lines.join('\n')}\n`, { mode: 0o755 });
      return executable;
    },
  };
}

async function folderFor(root: string, name: string, pluginJson: object | undefined): Promise<string> {
  const folder = path.join(root, name);
  await mkdir(folder, { recursive: true });
  if (pluginJson !== undefined) await writeFile(path.join(folder, 'plugin.json'), JSON.stringify(pluginJson));
  return folder;
}
