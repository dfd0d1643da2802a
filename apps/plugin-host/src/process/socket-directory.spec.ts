import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repositoryRoot } from '../../test/plugin-folder.js';
import { createSocketDirectory, removeSocketDirectory, sweepSocketDirectories } from './socket-directory.js';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sweep-'));
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

describe('folders for sockets', () => {
  it('are private and go away with their content', async () => {
    const directory = await createSocketDirectory(root);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    writeFileSync(join(directory, 's'), '');
    await removeSocketDirectory(directory);
    expect(existsSync(directory)).toBe(false);
  });

  it('are refused where paths in them would be cut', async () => {
    const long = join(root, 'x'.repeat(107 - 17 - Buffer.byteLength(join(root, '', 'cdph-XXXXXX')) - 1));
    mkdirSync(long);
    await removeSocketDirectory(await createSocketDirectory(long));
    mkdirSync(`${long}x`);
    await expect(createSocketDirectory(`${long}x`)).rejects.toThrow(
      /paths of 108 bytes, at most 107 work; set TMPDIR of this host to a shorter folder/,
    );
  });

  it('are not left behind where their owner cannot be written', () => {
    const { status, stderr } = spawnSync('/bin/sh', [
      '-c',
      // As on a full disk: folders can be made, and nothing can be written.
      'ulimit -f 0 && exec "$@"',
      'sh',
      process.execPath,
      ...['-r', join(repositoryRoot, 'scripts/register-typescript.cjs'), '-e'],
      `require(${JSON.stringify(join(__dirname, 'socket-directory.ts'))}).createSocketDirectory(${JSON.stringify(root)})`,
    ]);
    expect({ status, stderr: String(stderr) }).toEqual({ status: 1, stderr: expect.stringContaining('EFBIG') });
    expect(readdirSync(root)).toEqual([]);
  });

  it('are swept when their host is gone, and only then', async () => {
    const mine = await createSocketDirectory(root);
    const dead = join(root, 'cdph-dead00');
    const foreign = join(root, 'other-000000');
    for (const path of [dead, foreign]) mkdirSync(path);
    const { pid } = spawnSync('/bin/true');
    writeFileSync(join(dead, '.owner'), `${pid} 1`);
    expect(await sweepSocketDirectories(root)).toBe(1);
    expect([mine, dead, foreign].map((path) => existsSync(path))).toEqual([true, false, true]);
  });
});
