import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { scanRoots } from './scanner.js';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'scan-'));
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

function folder(
  name: string,
  files: Record<string, string | Buffer> = { [name]: '#!/bin/sh\n' },
  mode = 0o755,
): string {
  const path = join(root, name);
  mkdirSync(path, { recursive: true });
  for (const [file, content] of Object.entries(files))
    writeFileSync(join(path, file), content, { mode: file === 'plugin.json' ? 0o644 : mode });
  return path;
}

async function only(): Promise<{ kind: string; reason?: string; required?: boolean }> {
  const { plugins } = await scanRoots([root]);
  expect(plugins).toHaveLength(1);
  return plugins[0] as { kind: string; reason?: string };
}

describe('finding plugins', () => {
  it('orders by name in byte order and skips what is no plugin', async () => {
    for (const name of ['b', 'a-2', 'a', '10-redact']) folder(name);
    folder('lost+found', {});
    folder('..data', {});
    writeFileSync(join(root, 'README'), '');
    const { plugins, skipped } = await scanRoots([root]);
    expect(plugins.map(({ name }) => name)).toEqual(['10-redact', 'a', 'a-2', 'b']);
    expect(skipped).toHaveLength(3);
  });

  it('takes the later of two roots with the same name', async () => {
    folder('first/a', { a: '#!/bin/sh\n' });
    folder('second/a', { a: '#!/bin/sh\n' });
    const { plugins } = await scanRoots([join(root, 'first'), join(root, 'second'), join(root, 'none')]);
    expect(plugins.map((plugin) => plugin.folder)).toEqual([expect.stringContaining('second')]);
  });

  it('runs a command that names a file of the folder', async () => {
    const path = folder('a', { 'plugin.json': '{"command": ["node", "main.js"]}', 'main.js': '' });
    expect(await only()).toMatchObject({
      kind: 'candidate',
      command: ['node', 'main.js'],
      files: [join(path, 'main.js')],
    });
  });

  it.each([
    ['Upper', /not a plugin name/],
    ['under_score', /not a plugin name/],
    ['a'.repeat(64), /not a plugin name/],
  ])('refuses the name %s', async (name, message) => {
    folder(name);
    expect((await only()).reason).toMatch(message);
  });

  it.each([
    ['not executable', { a: '#!/bin/sh\n' }, 0o644, /is a script without permission to execute; run chmod \+x/],
    ['text', { a: 'hello\n' }, 0o755, /is text without a "#!" line/],
    ['an empty file', { a: '' }, 0o755, /is an empty file/],
    ['a Windows program', { a: 'MZ\x90' }, 0o755, /is a Windows executable/],
    ['a macOS program', { a: Buffer.from('cffaedfe00', 'hex') }, 0o755, /is a macOS binary/],
    ['unknown bytes', { a: Buffer.from([1, 2, 3]) }, 0o755, /binary content of an unknown kind/],
    [
      'one digest for several files',
      { 'plugin.json': `{"command": ["node", "b.js", "c.js"], "sha256": "${'0'.repeat(64)}"}`, 'b.js': '', 'c.js': '' },
      0o755,
      /"sha256" is one digest, but "command" names several files: give {"b.js": …, "c.js": …}/,
    ],
    [
      'a digest that is missing',
      { 'plugin.json': '{"command": ["node", "b.js"], "sha256": {}}', 'b.js': '' },
      0o755,
      /"sha256" has no digest of b.js/,
    ],
    ['a missing program', { 'plugin.json': '{}' }, 0o755, /does not exist/],
    ['a command outside', { 'plugin.json': '{"command": ["../../../../bin/sh"]}' }, 0o755, /outside/],
    ['a command without a file', { 'plugin.json': '{"command": ["node"]}' }, 0o755, /names no file/],
    [
      'an unknown field',
      { a: '#!/bin/sh\n', 'plugin.json': '{"nmae": 1}' },
      0o755,
      /plugin\.json: unknown field "nmae"/,
    ],
  ])('refuses %s', async (_, files: Record<string, string | Buffer>, mode, message) => {
    folder('a', files, mode);
    const found = await only();
    expect(found).toMatchObject({ kind: 'refusal', required: true });
    expect(found.reason).toMatch(message);
  });

  it('knows that a refused plugin is not required where its plugin.json says so', async () => {
    folder('a', { 'plugin.json': '{"required": false, "x": 1}', a: '#!/bin/sh\n' });
    expect(await only()).toMatchObject({ kind: 'refusal', required: false });
  });

  it('refuses a folder as the executable', async () => {
    folder('a', {});
    mkdirSync(join(root, 'a', 'a'));
    expect((await only()).reason).toMatch(/is a folder/);
  });

  it('refuses links that leave the root, and follows those that stay', async () => {
    folder('.data/a', { a: '#!/bin/sh\n' });
    symlinkSync(join(root, '.data/a'), join(root, 'a'));
    expect(await only()).toMatchObject({ kind: 'candidate' });
    rmSync(join(root, 'a'));
    folder('a', {});
    symlinkSync('/bin/sh', join(root, 'a/a'));
    expect((await only()).reason).toMatch(/is a link to .*, outside/);
  });

  it('refuses what everyone can write', async () => {
    const path = folder('a');
    chmodSync(join(path, 'a'), 0o777);
    expect((await only()).reason).toMatch(/writable by everyone/);
    chmodSync(join(path, 'a'), 0o755);
    chmodSync(path, 0o777);
    expect((await only()).reason).toMatch(/writable by everyone/);
  });
});
