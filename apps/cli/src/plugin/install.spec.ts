import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPlugin } from './install.js';

let base: string;
let folder: string;
let root: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'install-')));
  folder = join(base, 'mine', 'guard');
  root = join(base, 'root');
  mkdirSync(join(folder, 'node_modules', 'x'), { recursive: true });
  mkdirSync(join(folder, 'lib'));
  mkdirSync(root);
  for (const file of ['plugin.json', 'guard', '.env', 'lib/rules.txt']) writeFileSync(join(folder, file), 'old');
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

it('copies what runs, replaces its own copy as a whole, and removes it', async () => {
  const installed = await installPlugin(folder, root);
  const target = join(root, 'guard');
  expect(installed.folder).toBe(target);
  expect(readdirSync(target).sort()).toEqual(['.codedock-dev', 'guard', 'lib', 'plugin.json']);
  writeFileSync(join(folder, 'lib/rules.txt'), 'new');
  rmSync(join(folder, 'plugin.json'));
  await installed.refresh();
  expect(readFileSync(join(target, 'lib/rules.txt'), 'utf8')).toBe('new');
  expect(existsSync(join(target, 'plugin.json'))).toBe(false);
  expect(readdirSync(root)).toEqual(['guard']);
  await installed.remove();
  expect(readdirSync(root)).toEqual([]);
});

it('touches nothing that it did not put there', async () => {
  mkdirSync(join(root, 'guard'));
  writeFileSync(join(root, 'guard', 'guard'), 'of somebody else');
  await expect(installPlugin(folder, root)).rejects.toThrow('exists and was not put there by this command');
  expect(readFileSync(join(root, 'guard', 'guard'), 'utf8')).toBe('of somebody else');
});

it('leaves a folder that lies in the root as it is', async () => {
  const installed = await installPlugin(folder, join(base, 'mine'));
  await installed.refresh();
  await installed.remove();
  expect(readFileSync(join(folder, 'guard'), 'utf8')).toBe('old');
  expect(readdirSync(join(base, 'mine'))).toEqual(['guard']);
});

it('says what to do where there is no root', async () => {
  await expect(installPlugin(folder, join(base, 'none'))).rejects.toThrow('start npm start once');
});
