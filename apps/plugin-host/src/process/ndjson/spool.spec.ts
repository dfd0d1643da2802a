import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inlineBytes, Spool } from './spool.js';

let root: string;
let spool: Spool;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cd-spool-'));
  spool = Spool.make(root, 's1');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const reference = (name: unknown, bytes: unknown) => spool.take({ $file: name, bytes } as never, 'raw');
const settled = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
};

describe('values for a plugin', () => {
  it('stand in the line up to 1 MiB, and in a file beyond', async () => {
    const small = JSON.stringify('x'.repeat(inlineBytes - 2));
    expect(await spool.put(small)).toBe(small);
    const large = JSON.stringify('ü'.repeat(inlineBytes / 2));
    const { $file, bytes } = JSON.parse(await spool.put(large)) as { $file: string; bytes: number };
    expect(bytes).toBe(Buffer.byteLength(large));
    expect(readFileSync(join(spool.path, $file), 'utf8')).toBe(large);
  });

  it.each(['{"$file":"../x","bytes":1}', '{"\\u0024file":"../x"}', '{"bytes":1,"$file":"x"}'])(
    'that look like a file become one: %s',
    async (json) => {
      const { $file } = JSON.parse(await spool.put(json)) as { $file: string };
      expect(readFileSync(join(spool.path, $file), 'utf8')).toBe(json);
    },
  );

  it('that only speak of files stay in the line', async () => {
    const json = '{"text":"a \\"$file\\" \\u0024","deep":{"$file":"x"}}';
    expect(await spool.put(json)).toBe(json);
  });
});

describe('values of a plugin', () => {
  it('are what the file holds', async () => {
    writeFileSync(join(spool.path, 'a.json'), '{"n":1.0}');
    expect(String(await reference('a.json', 9))).toBe('{"n":1.0}');
    expect(String(await spool.take({ $files: 1 }, '{"$files":1}'))).toBe('{"$files":1}');
  });

  it.each<[string, unknown, unknown, RegExp]>([
    ['a path upwards', '../a', 1, /plain name/],
    ['an absolute path', '/etc/passwd', 1, /plain name/],
    ['a folder inside', 'a/b', 1, /plain name/],
    ['a dot', '.', 1, /plain name/],
    ['a hidden file', '.a', 1, /plain name/],
    ['nothing', '', 1, /plain name/],
    ['a number', 7, 1, /plain name/],
    ['no size', 'a', undefined, /must be its size/],
    ['a negative size', 'a', -1, /must be its size/],
    ['a broken size', 'a', 0.5, /must be its size/],
    ['a huge size', 'a', 2 ** 40, /at most/],
    ['a file that is not there', 'a', 1, /ENOENT/],
  ])('refuse %s', async (_, name, bytes, message) => {
    await expect(reference(name, bytes)).rejects.toThrow(message);
  });

  it('refuse links, folders, pipes and files of another size', async () => {
    symlinkSync('/etc/hostname', join(spool.path, 'link'));
    execFileSync('mkfifo', [join(spool.path, 'pipe')]);
    execFileSync('mkdir', [join(spool.path, 'folder')]);
    writeFileSync(join(spool.path, 'file'), 'abc');
    await expect(reference('link', 1)).rejects.toThrow(/ELOOP/);
    await expect(reference('pipe', 0)).rejects.toThrow(/is no file/);
    await expect(reference('folder', 0)).rejects.toThrow(/is no file|EISDIR/);
    await expect(reference('file', 2)).rejects.toThrow(/no file of 2 bytes/);
    await expect(reference('file', 4)).rejects.toThrow(/no file of 4 bytes/);
  });
});

describe('the end of a request', () => {
  it('removes the folder, with files and without', async () => {
    spool.remove();
    spool.remove();
    expect(readdirSync(root)).toEqual([]);
    const full = Spool.make(root, 's2');
    writeFileSync(join(full.path, 'a'), 'x');
    full.remove();
    expect(existsSync(full.path)).toBe(false);
    await settled(() => readdirSync(root).length === 0);
  });

  it('leaves nothing to write into', async () => {
    writeFileSync(join(spool.path, 'a'), 'x');
    spool.remove();
    expect(() => writeFileSync(join(spool.path, 'late'), 'x')).toThrow(/ENOENT/);
    await settled(() => readdirSync(root).length === 0);
  });
});
