import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { build, version } from 'esbuild';

/** Root of the repository, from src/plugins and dist/plugins alike. */
const root = resolve(__dirname, '../../../..');

const aliases = {
  '@codedock/plugin-sdk/testing': join(root, 'libs/plugin-sdk/src/testing/index.ts'),
  '@codedock/plugin-sdk': join(root, 'libs/plugin-sdk/src/index.ts'),
  '@codedock/proto': join(root, 'libs/proto/src/index.ts'),
};
const sourceFolders = ['libs/plugin-sdk/src', 'libs/proto/src', 'libs/testkit/src/plugins/hostile'];

/** Path of the test plugin's program. */
export const hostileEntry = join(root, 'libs/testkit/src/plugins/hostile/main.ts');

/**
 * Bundles a plugin's module (TypeScript or JavaScript using the SDK) into the text of one executable file. The result is
 * kept in the temporary folder under a digest of all sources, so that the same plugin is built once per machine.
 */
export async function bundlePlugin(source: { readonly text: string } | { readonly file: string }): Promise<string> {
  const text = 'text' in source ? source.text : readFileSync(source.file, 'utf8');
  const path = join(cacheFolder(), `${digestOf(text)}.js`);
  if (existsSync(path)) return readFileSync(path, 'utf8');
  const result = await build({
    ...('text' in source
      ? {
          stdin: {
            contents: source.text,
            loader: 'ts',
            resolveDir: join(root, 'libs/testkit'),
            sourcefile: 'plugin.ts',
          },
        }
      : { entryPoints: [source.file] }),
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    sourcemap: 'inline',
    sourcesContent: false,
    alias: aliases,
    absWorkingDir: root,
    logLevel: 'silent',
  });
  const bundled = withInterpreter(result.outputFiles[0]?.text ?? '');
  const unfinished = `${path}.${process.pid}`;
  writeFileSync(unfinished, bundled);
  renameSync(unfinished, path);
  return bundled;
}

/** The text of an executable: an interpreter line first, if it has none. */
function withInterpreter(text: string): string {
  return text.startsWith('#!') ? text : `#!/usr/bin/env node\n${text}`;
}

function cacheFolder(): string {
  const folder = join(tmpdir(), `codedock-test-plugins-${userInfo().uid}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

function digestOf(text: string): string {
  const hash = createHash('sha256').update(`${version}\n${process.versions.node}\n${text}\n`);
  for (const folder of sourceFolders) {
    for (const name of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).sort()) {
      if (name.endsWith('.ts') && !name.endsWith('.spec.ts'))
        hash.update(name).update(readFileSync(join(root, folder, name)));
    }
  }
  return hash.digest('hex').slice(0, 32);
}
