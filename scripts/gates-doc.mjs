/**
 * Writes docs/gates.md from the built policy table of libs/hooks; with --check it only compares, and fails when the
 * file is stale.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const { gatesDocument } = createRequire(import.meta.url)('../libs/hooks/dist/index.js');
const file = fileURLToPath(new URL('../docs/gates.md', import.meta.url));
const text = gatesDocument();

const stored = () => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
};

if (process.argv.includes('--check')) {
  if (stored() !== text) {
    console.error('docs/gates.md is stale: run `npm run gen -w @codedock/hooks` and commit the result.');
    process.exitCode = 1;
  }
} else {
  mkdirSync(fileURLToPath(new URL('../docs/', import.meta.url)), { recursive: true });
  writeFileSync(file, text);
}
