import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pluginJsonSchema } from './plugin-json-schema.js';

// Writes docs/plugins/plugin.schema.json; with --check it only compares and fails when the file is outdated.
const file = path.resolve(__dirname, '../../../../docs/plugins/plugin.schema.json');
const content = `${JSON.stringify(pluginJsonSchema(), null, 2)}\n`;
if (!process.argv.includes('--check')) writeFileSync(file, content);
else if (read() !== content) {
  process.stderr.write('docs/plugins/plugin.schema.json is outdated. Run "npm run gen".\n');
  process.exitCode = 1;
}

function read(): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
