/**
 * Writes what the chart repeats: values.schema.json and README.md from the comments of values.yaml, and the copies of
 * alert rules and dashboards that a chart can only read from its own folder. With --check it only compares, and fails
 * when a file is stale.
 *
 * In values.yaml `# -- text` describes a value, `# @type {…}` gives or narrows its JSON Schema, `## Title` begins a
 * section. Types follow from the defaults; every object is closed.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isMap, isScalar, parseDocument } from 'yaml';
import { root } from './workspace/root.mjs';

const chart = join(root, 'deploy/helm/codedock');
const check = process.argv.includes('--check');

/** One value: where it is, its default, what its comments say. */
function readValues(text) {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw document.errors[0];
  const entries = [];
  let section = '';
  const visit = (map, path) => {
    map.items.forEach((pair, index) => {
      const name = pair.key.value;
      // The comment above the first key of a map belongs to the map.
      const first = index === 0 ? (path.length === 0 ? (document.commentBefore ?? '') : (map.commentBefore ?? '')) : '';
      const comment = `${first}\n${pair.key.commentBefore ?? ''}`;
      const about = { text: [], type: undefined };
      for (const line of comment.split('\n')) {
        if (line.startsWith('# ')) section = line.slice(2).trim();
        else if (line.startsWith(' -- ')) about.text = [line.slice(4)];
        else if (line.startsWith(' @type ')) about.type = JSON.parse(line.slice(7));
        else if (line.startsWith(' ') && about.text.length > 0) about.text.push(line.slice(1));
      }
      const here = [...path, name];
      const leaf = about.type !== undefined || !isMap(pair.value);
      const value = isScalar(pair.value) ? pair.value.value : pair.value.toJSON();
      entries.push({ path: here, section, text: about.text.join(' '), type: about.type, leaf, value });
      if (!leaf) visit(pair.value, here);
    });
  };
  visit(document.contents, []);
  return entries;
}

function inferredType(value, path) {
  if (typeof value === 'string' || typeof value === 'boolean') return { type: typeof value };
  if (Number.isInteger(value)) return { type: 'integer' };
  throw new Error(`values.yaml: ${path.join('.')} needs an @type comment: its default does not say what it takes.`);
}

function schemaOf(entries, definitions) {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the CodeDock chart',
    ...objectSchema(),
    ...definitions,
  };
  for (const { path, text, type, leaf, value } of entries) {
    const parent = path.slice(0, -1).reduce((node, name) => node.properties[name], schema);
    const about = text === '' ? {} : { description: text };
    if (!leaf) parent.properties[path.at(-1)] = { ...about, ...objectSchema() };
    else {
      if (text === '') throw new Error(`values.yaml: ${path.join('.')} has no description.`);
      const known = type !== undefined && ['$ref', 'enum', 'type', 'anyOf'].some((word) => word in type);
      // Beside a $ref draft 07 reads nothing else.
      const narrowed = type !== undefined && '$ref' in type ? { allOf: [type] } : type;
      parent.properties[path.at(-1)] = { ...about, ...(known ? {} : inferredType(value, path)), ...narrowed };
    }
  }
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function objectSchema() {
  return { type: 'object', additionalProperties: false, properties: {} };
}

function readmeOf(entries, intro) {
  const lines = [
    '<!-- Generated from values.yaml and README.intro.md by `npm run gen`. Do not edit. -->',
    intro.trimEnd(),
    '',
    '## Values',
    '',
    'Every object is closed: a misspelt name is refused. Lists and objects that Kubernetes defines are passed on as they are.',
  ];
  let section;
  for (const entry of entries.filter(({ leaf }) => leaf)) {
    if (entry.section !== section) {
      section = entry.section;
      lines.push('', `### ${section}`, '', '| value | default | meaning |', '|---|---|---|');
    }
    const shown = JSON.stringify(entry.value).replaceAll('|', '\\|');
    lines.push(`| \`${entry.path.join('.')}\` | \`${shown}\` | ${entry.text.replaceAll('|', '\\|')} |`);
  }
  return `${lines.join('\n')}\n`;
}

/** Files of a folder outside the chart, as they have to be inside. */
function copies(from, to, ending) {
  const source = join(root, from);
  const names = existsSync(source) ? readdirSync(source).filter((name) => name.endsWith(ending)) : [];
  const wanted = new Map(names.map((name) => [join(chart, to, name), readFileSync(join(source, name), 'utf8')]));
  const present = existsSync(join(chart, to)) ? readdirSync(join(chart, to)) : [];
  const superfluous = present.map((name) => join(chart, to, name)).filter((file) => !wanted.has(file));
  return { wanted, superfluous };
}

const entries = readValues(readFileSync(join(chart, 'values.yaml'), 'utf8'));
const definitions = JSON.parse(readFileSync(join(chart, 'schema.defs.json'), 'utf8'));
const rules = copies('deploy/prometheus', 'files/rules', '.yaml');
const dashboards = copies('deploy/grafana', 'files/dashboards', '.json');
const files = new Map([
  [join(chart, 'values.schema.json'), schemaOf(entries, definitions)],
  [join(chart, 'README.md'), readmeOf(entries, readFileSync(join(chart, 'README.intro.md'), 'utf8'))],
  ...rules.wanted,
  ...dashboards.wanted,
]);
const superfluous = [...rules.superfluous, ...dashboards.superfluous];

if (check) {
  const stale = [...files]
    .filter(([file, text]) => !existsSync(file) || readFileSync(file, 'utf8') !== text)
    .map(([file]) => file)
    .concat(superfluous);
  for (const file of stale)
    console.error(`${relative(root, file)} is stale: run \`npm run gen\` and commit the result.`);
  process.exitCode = stale.length === 0 ? 0 : 1;
} else {
  for (const [file, text] of files) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  for (const file of superfluous) rmSync(file);
}
