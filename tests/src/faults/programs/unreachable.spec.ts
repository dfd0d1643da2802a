import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { CRASH_POINTS } from './crash-points.js';

/** Sources of everything that ships. */
function shipped(): { readonly file: string; readonly text: string }[] {
  const root = repositoryRoot();
  return ['apps', 'libs', 'plugin', 'examples'].flatMap((kind) =>
    readdirSync(path.join(root, kind))
      .filter((name) => name !== 'testkit')
      .flatMap((name) => sourcesIn(path.join(root, kind, name, 'src')))
      .map((file) => ({ file: path.relative(root, file), text: readFileSync(file, 'utf8') })),
  );
}

function sourcesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.[cm]?tsx?$/.test(name) && !name.endsWith('.spec.ts'))
      .map((name) => path.join(folder, name));
  } catch {
    return [];
  }
}

const filesWith = (pattern: RegExp) => shipped().flatMap(({ file, text }) => (pattern.test(text) ? [file] : []));

test('nothing that ships lays anything around the parts of a service', () => {
  // The places that take it; a place that gives it would write `around:` or name it in an object.
  expect(filesWith(/\baround\b\s*[:,}]|\.around\b/).sort()).toEqual([
    'apps/gateway/src/serve.ts',
    'apps/runner/src/runner.module.ts',
  ]);
  const text = (file: string) => shipped().find((each) => each.file === file)?.text ?? '';
  for (const app of ['gateway', 'runner']) expect(text(`apps/${app}/src/main.ts`)).not.toMatch(/around/);
  // Taken from the caller's options alone: no variable, no file.
  expect(text('apps/runner/src/runner.module.ts').match(/\baround\b(?=\??[.:(])/g)).toHaveLength(2);
});

test('nothing that ships imports this folder or knows the name of a place', () => {
  const names = Object.keys(CRASH_POINTS).map((name) => `'${name}'`);
  expect(filesWith(new RegExp(`faults/programs|crash-points|${names.join('|')}`))).toEqual([]);
});
