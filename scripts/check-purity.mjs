/**
 * Fails when the pure core reaches for the outside world: wall clock, randomness or the process in
 * libs/domain, libs/hooks and libs/agent-loop; and, in libs/agent-loop alone, any name of a ledger event
 * or of a plugin port (the loop knows hooks and port methods only).
 *
 *   node scripts/check-purity.mjs [root]
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const PURE = ['libs/domain', 'libs/hooks', 'libs/agent-loop'];
const IMPURE_MEMBERS = new Set([
  'Date.now',
  'Math.random',
  'crypto.randomUUID',
  'crypto.getRandomValues',
  'performance.now',
]);
const GLOBAL_OBJECTS = new Set(['globalThis', 'global']);
const PORT_NAME = /^(agent\/(input|pre-step|request)|llm\/stream|tools\/(pre|post)-execute)$/;
const DIRECTION_NAME = /^(input\/(handled|blocked)|run\/(blocked|aborted)|tools\/(denied|ask|skipped))$/;

const root = resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)));

const sourcesOf = (folder) =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.spec.ts'))
        .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    : [];

const parse = (file) => ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);

const visit = (node, see) => {
  see(node);
  ts.forEachChild(node, (child) => visit(child, see));
};

/** The literal's text; undefined for anything else. A comment is no literal, so prose may name an event. */
const literalOf = (node) => (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) ? node.text : undefined);

const ledgerEventNames = () => {
  const file = join(root, 'libs/domain/src/ledger-event.ts');
  const names = new Set();
  if (existsSync(file)) {
    visit(parse(file), (node) => {
      const text = literalOf(node);
      if (text !== undefined && /^[a-z]+\.[a-z_]+$/.test(text)) names.add(text);
    });
  }
  return names;
};

const impurity = (node) => {
  if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) {
    const member = `${node.expression.text}.${node.name.text}`;
    if (IMPURE_MEMBERS.has(member)) return `${member} (take the time or the number from a port)`;
    if (GLOBAL_OBJECTS.has(node.expression.text)) return `${member} (the core has no global state)`;
  }
  if (ts.isNewExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'Date') {
    if ((node.arguments ?? []).length === 0) return 'new Date() (take the time from the Clock port)';
  }
  return undefined;
};

const forbiddenName = (node, eventNames) => {
  const text = literalOf(node);
  if (text === undefined) return undefined;
  if (eventNames.has(text)) return `ledger event name '${text}' (call the Ledger port's method)`;
  if (PORT_NAME.test(text) || DIRECTION_NAME.test(text))
    return `plugin port name '${text}' (the loop knows only Hooks)`;
  return undefined;
};

const eventNames = ledgerEventNames();
const found = [];
let files = 0;
for (const folder of PURE) {
  for (const file of sourcesOf(join(root, folder, 'src'))) {
    files += 1;
    const source = parse(file);
    visit(source, (node) => {
      const reason = impurity(node) ?? (folder === 'libs/agent-loop' ? forbiddenName(node, eventNames) : undefined);
      if (reason === undefined) return;
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      found.push(`${relative(root, file)}:${line + 1}: ${reason}`);
    });
  }
}

for (const line of found) console.error(line);
console.log(`purity: ${files} files, ${found.length} violations`);
process.exitCode = found.length === 0 ? 0 : 1;
