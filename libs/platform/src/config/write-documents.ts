import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { renderConfigurationDocument, renderEnvironmentExample } from './render-variables.js';

// Writes docs/configuration.md and .env.example; with --check it only compares and fails when they are outdated.
const root = path.resolve(__dirname, '../../../..');
const check = process.argv.includes('--check');
let outdated = 0;
for (const [name, content] of [
  ['docs/configuration.md', renderConfigurationDocument()],
  ['.env.example', renderEnvironmentExample()],
] as const) {
  const file = path.join(root, name);
  if (!check) {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  } else if (read(file) !== content) {
    outdated += 1;
    process.stderr.write(`${name} is outdated. Run "npm run gen".\n`);
  }
}
process.exitCode = outdated > 0 ? 1 : 0;

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
