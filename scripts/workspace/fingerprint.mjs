import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './root.mjs';

const SOURCES = [
  'apps',
  'libs',
  'plugin',
  'examples',
  'tests',
  'prisma',
  'scripts',
  'tools',
  'package-lock.json',
  'tsconfig.base.json',
];
const SKIPPED = new Set(['node_modules', 'dist', 'generated', '.nx', 'coverage']);
const RELEVANT = /\.(ts|mts|mjs|cjs|js|json|proto|prisma|sql|yaml)$/;

/** Digest over path, size and time of every source file: cheap enough for each start, changes whenever a build might differ. */
export function sourceFingerprint() {
  const hash = createHash('sha256');
  for (const source of SOURCES) visit(source, hash);
  return hash.digest('hex');
}

function visit(relative, hash) {
  const path = join(root, relative);
  const entry = statSync(path, { throwIfNoEntry: false });
  if (entry === undefined) return;
  if (entry.isDirectory()) {
    for (const name of readdirSync(path).sort()) {
      if (!SKIPPED.has(name) && !name.endsWith('.tsbuildinfo')) visit(join(relative, name), hash);
    }
  } else if (RELEVANT.test(relative)) {
    hash.update(`${relative}\0${entry.size}\0${entry.mtimeMs}\n`);
  }
}
