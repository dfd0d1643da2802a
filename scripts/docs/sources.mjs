import { readFileSync } from 'node:fs';
import ts from 'typescript';

/** A parsed source file. */
export const parsed = (file) => ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);

/** The docstring of a declaration on one line. @throws when it has none. */
export function docOf(node, name) {
  const doc = ts.getJSDocCommentsAndTags(node).map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? '');
  const text = doc.join(' ').replaceAll(/\s+/g, ' ').trim();
  if (text === '') throw new Error(`${name} has no docstring, so that docs/api-reference.md cannot describe it.`);
  return text;
}

/** A cell of a Markdown table. */
export const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** A Markdown table. */
export const table = (heads, rows) => [
  `| ${heads.join(' | ')} |`,
  `|${heads.map(() => '---').join('|')}|`,
  ...rows.map((row) => `| ${row.map(cell).join(' | ')} |`),
];
