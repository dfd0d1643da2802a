import { join } from 'node:path';
import ts from 'typescript';
import { docOf, parsed, table } from './sources.mjs';

/** Types that payloads name, and the files that declare them. */
const SHAPES = [
  ['message.ts', 'Message'],
  ['message.ts', 'MessageContent'],
  ['message.ts', 'MessageToolCall'],
  ['approval.ts', 'ApprovalCall'],
  ['approval.ts', 'ApprovalDecision'],
  ['tool-call.ts', 'AskReason'],
  ['tool-call.ts', 'ToolResult'],
  ['tool-call.ts', 'ToolCallState'],
  ['tool-call.ts', 'ResultSource'],
  ['usage.ts', 'Usage'],
];

/** Every ledger event type with its payload. */
export function eventSection(folder) {
  const source = parsed(join(folder, 'ledger-event.ts'));
  const payloads = declared(source, 'LedgerPayloads');
  const rows = payloads.members.map((member) => {
    const type = member.name.text;
    return [`\`${type}\``, fieldsOf(member.type, source), docOf(member, type)];
  });
  return [
    '## Events',
    '',
    '`payload` of a ledger event, by `type`. A `?` marks a member that may be absent.',
    '',
    ...table(['type', 'payload', 'meaning'], rows),
    '',
    '### Shapes in payloads',
    '',
    '```ts',
    ...SHAPES.flatMap(([file, name]) => [shapeOf(parsed(join(folder, file)), name), '']).slice(0, -1),
    '```',
    '',
  ];
}

function declared(source, name) {
  const found = source.statements.find((statement) => statement.name?.text === name);
  if (found === undefined) throw new Error(`${source.fileName} declares no ${name}.`);
  return found;
}

function fieldsOf(type, source) {
  const members = ts.isTypeLiteralNode(type)
    ? type.members
    : ts.isTypeReferenceNode(type) && type.typeArguments === undefined
      ? declared(source, type.typeName.text).members
      : [];
  if (members.length === 0) return '–';
  return members
    .map(({ name, questionToken, type: of }) => `\`${name.getText()}${questionToken ? '?' : ''}: ${plain(of)}\``)
    .join(', ');
}

const plain = (node) => node.getText().replaceAll('readonly ', '').replaceAll(/\s+/g, ' ');

function shapeOf(source, name) {
  const node = declared(source, name);
  const text = node
    .getText()
    .replaceAll('readonly ', '')
    .replace(/^export /, '');
  if (!text.includes('(typeof ')) return text;
  // A union made from a list of values: the values say more than the expression.
  const list = /\(typeof (\w+)\)/.exec(text)[1];
  const values = source.statements
    .filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => declarationList.declarations)
    .find((declaration) => declaration.name.getText() === list).initializer.expression.elements;
  return `type ${name} = ${values.map((value) => value.getText()).join(' | ')};`;
}
