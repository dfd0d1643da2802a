#!/usr/bin/env node
// ts-proto with two copies less per message: its services would copy each encoded message, its decoders each bytes
// field. Run by buf; reads a CodeGeneratorRequest, writes a CodeGeneratorResponse.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const { CodeGeneratorResponse } = require('ts-proto-descriptors');

const generator = fileURLToPath(new URL('../../../node_modules/ts-proto/protoc-gen-ts_proto', import.meta.url));
const { status, stdout } = spawnSync(process.execPath, [generator], {
  input: readFileSync(0),
  stdio: ['pipe', 'pipe', 'inherit'],
  maxBuffer: 2 ** 30,
});
if (status !== 0) process.exit(status ?? 1);

const response = CodeGeneratorResponse.decode(stdout);
for (const file of response.file) file.content = lean(file.name, file.content);
process.stdout.write(CodeGeneratorResponse.encode(response).finish());

function lean(name, content) {
  const changed = content
    .replace(/Buffer\.from\((\w+)\.encode\(value\)\.finish\(\)\)/g, 'encoded($1, value)')
    .replace(/Buffer\.from\(reader\.bytes\(\)\)/g, 'bytesOf(reader)');
  const used = ['bytesOf', 'encoded'].filter((symbol) => changed.includes(`${symbol}(`));
  if (used.length === 0) return content;
  const codec = posix.relative(posix.dirname(posix.join('gen', name)), 'codec.js');
  const line = `import { ${used.join(', ')} } from "${codec}";\n`;
  const firstImport = changed.indexOf('import ');
  return changed.slice(0, firstImport) + line + changed.slice(firstImport);
}
