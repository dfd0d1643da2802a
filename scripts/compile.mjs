/**
 * Compiles the project in the current folder and all it refers to, by one compiler process: `tsc -b`, or other options of
 * tsc when given. TypeScript 7 needs a third of the time and is used where npm installed its binary; TypeScript 5.9
 * writes the same code. One of the two for everything on a machine, because each rebuilds what the other has built.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

const folderOf = (name, from = require) => {
  try {
    return dirname(from.resolve(`${name}/package.json`));
  } catch {
    return undefined;
  }
};

const native = folderOf('typescript7');
const binary =
  native &&
  folderOf(`@typescript/typescript-${process.platform}-${process.arch}`, createRequire(`${native}/package.json`));
const compiler = join(binary ? native : folderOf('typescript'), 'bin/tsc');

const given = process.argv.slice(2);
const { status } = spawnSync(process.execPath, [compiler, ...(given.length > 0 ? given : ['-b'])], {
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
