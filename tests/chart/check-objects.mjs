// Judges Kubernetes objects as an API server with strict field validation would. Reads a JSON array of objects from
// stdin, writes a JSON array with the problems of each. Values and required fields by the models' validators; unknown
// fields and types by the compiler, since excess properties of a literal are errors. A process of its own, because the
// models are ES modules only.
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const PACKAGES = [
  [/^keda\.sh\//, '@kubernetes-models/keda'],
  [/\.?cert-manager\.io\//, '@kubernetes-models/cert-manager'],
  [/^monitoring\.coreos\.com\//, '@kubernetes-models/prometheus-operator'],
  [/^gateway\.networking\.k8s\.io\//, '@kubernetes-models/gateway-api'],
];

function moduleOf({ apiVersion, kind }) {
  const [, name] = PACKAGES.find(([group]) => group.test(apiVersion)) ?? [undefined, 'kubernetes-models'];
  return `${name}/${apiVersion}/${kind}`;
}

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const objects = JSON.parse(Buffer.concat(chunks).toString('utf8'));
const problems = objects.map(() => []);

await Promise.all(
  objects.map(async (object, index) => {
    let Model;
    try {
      ({ [object.kind]: Model } = await import(moduleOf(object)));
    } catch {
      problems[index].push(`no such kind: ${object.apiVersion} ${object.kind}`);
      return;
    }
    try {
      new Model(structuredClone(object)).validate();
    } catch (error) {
      problems[index].push(error.message.replaceAll('\n', ' '));
    }
  }),
);

const begins = [];
let line = 0;
const lines = [];
for (const [index, object] of objects.entries()) {
  begins.push(line);
  if (problems[index].some((problem) => problem.startsWith('no such kind'))) continue;
  const text = `import type { I${object.kind} as T${index} } from '${moduleOf(object)}';\nexport const o${index}: T${index} = ${JSON.stringify(object, null, 1)};`;
  lines.push(text);
  line += text.split('\n').length;
}
const file = fileURLToPath(new URL('objects.generated.ts', import.meta.url));
const source = lines.join('\n');
const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  target: ts.ScriptTarget.ES2022,
};
const host = ts.createCompilerHost(options);
const { readFile, fileExists, getSourceFile } = host;
host.fileExists = (name) => name === file || fileExists(name);
host.readFile = (name) => (name === file ? source : readFile(name));
host.getSourceFile = (name, ...rest) =>
  name === file ? ts.createSourceFile(file, source, ts.ScriptTarget.ES2022, true) : getSourceFile(name, ...rest);
const program = ts.createProgram([file], options, host);
const checked = program.getSourceFile(file);
for (const diagnostic of ts.getPreEmitDiagnostics(program, checked)) {
  const at = checked.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line;
  const index = begins.findLastIndex((begin) => begin <= at);
  problems[index].push(ts.flattenDiagnosticMessageText(diagnostic.messageText, ' ').replaceAll(/\s+/g, ' '));
}
process.stdout.write(JSON.stringify(problems));
