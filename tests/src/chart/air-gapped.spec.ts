import { readFileSync } from 'node:fs';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { modes, render, template } from './helm.js';

const page = readFileSync(path.join(repositoryRoot(), 'docs/operating/air-gapped.md'), 'utf8');
const [, pattern = ''] = /grep -oE '([^']+)'/.exec(page) ?? [];

/** Every image that an object names, wherever: of containers, and of volumes that are images. */
function imagesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    (name === 'image' || name === 'reference') && typeof inner === 'string' ? [inner] : imagesIn(inner),
  );
}

it.each(modes)('the list of images to copy is whole: %s', async (mode) => {
  expect(pattern).not.toBe('');
  const used = (await render(mode)).flatMap(imagesIn);
  expect(used.length).toBeGreaterThan(0);
  const { stdout } = await template(mode);
  // Line by line, as grep looks.
  const found = stdout.split('\n').flatMap((line) => line.match(new RegExp(pattern, 'g')) ?? []);
  const listed = found.map((text) => text.replace(/^\w+: /, '').replaceAll('"', ''));
  expect([...new Set(listed)].sort()).toEqual([...new Set(used)].sort());
});
