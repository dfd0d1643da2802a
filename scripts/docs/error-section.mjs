import ts from 'typescript';
import { docOf, parsed, table } from './sources.mjs';

/** Every error code with the status the API answers. */
export function errorSection(file) {
  const rows = [];
  const visit = (node) => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === 'ERROR_CODES') {
      for (const property of node.initializer.expression.properties) {
        const name = property.name.getText();
        rows.push([`\`${name}\``, property.initializer.getText(), docOf(property, name)]);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(parsed(file));
  return [
    '## Errors',
    '',
    'The `code` of a problem. Some never are an HTTP answer: they stand in events, tool results and logs.',
    '',
    ...table(['code', 'status', 'meaning'], rows),
    '',
  ];
}
