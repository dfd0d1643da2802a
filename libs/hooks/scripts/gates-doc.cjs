'use strict';
// Writes docs/gates.md from the built policy table; with --check it only compares and fails when the file is stale.
const { mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const { dirname, join } = require('node:path');
const { gatesDocument } = require('../dist/index.js');

const file = join(__dirname, '../../../docs/gates.md');
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
    process.stderr.write('docs/gates.md is stale: run `npm run gen -w @codedock/hooks` and commit the result.\n');
    process.exitCode = 1;
  }
} else {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
