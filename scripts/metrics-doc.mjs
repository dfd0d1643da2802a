/** Writes docs/metrics.md from the list of metrics in libs/platform; with --check it only compares, and fails when stale. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { parsed, table } from './docs/sources.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const file = `${root}docs/metrics.md`;
const SUFFIXES = { duration: '_bucket, _sum, _count', count: '_total', level: '', upDown: '' };
const KINDS = { duration: 'histogram, seconds', count: 'counter', level: 'gauge', upDown: 'gauge' };

const rows = [];
const visit = (node) => {
  if (ts.isVariableDeclaration(node) && node.name.getText() === 'metrics') {
    for (const property of node.initializer.expression.properties) rows.push(rowOf(property));
  }
  ts.forEachChild(node, visit);
};
visit(parsed(`${root}libs/platform/src/telemetry/metrics.ts`));

function rowOf({ initializer: call }) {
  const maker = call.expression.getText();
  if (KINDS[maker] === undefined) throw new Error(`scripts/metrics-doc.mjs knows no metric made by ${maker}.`);
  const [name, meaning] = call.arguments.map(({ text }) => text);
  const attributes = call.typeArguments[0];
  const labels = ts.isTypeLiteralNode(attributes) ? attributes.members.map((member) => `\`${member.name.text}\``) : [];
  const suffix = SUFFIXES[maker] === '' ? '' : ` (${SUFFIXES[maker]})`;
  return [`\`${name.replaceAll('.', '_')}\`${suffix}`, KINDS[maker], labels.join(', '), meaning];
}

const text = [
  '<!-- Generated from libs/platform/src/telemetry/metrics.ts by `npm run gen`. Do not edit. -->',
  '# Metrics',
  '',
  'At `/metrics` of every process that has something to say about it. What to alert on: [operating.md](operating.md#what-to-watch).',
  '',
  ...table(['name', 'kind', 'labels', 'meaning'], rows),
  '',
].join('\n');

const stored = () => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
};

if (!process.argv.includes('--check')) {
  writeFileSync(file, text);
} else if (stored() !== text) {
  console.error('docs/metrics.md is stale: run `npm run gen -w @codedock/platform` and commit the result.');
  process.exitCode = 1;
}
